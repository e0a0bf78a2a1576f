"""Extract questions and programs of GeoQuery, with trees and alignments, for the splits of NQG.

The corpus folder contains the multilingual GeoQuery corpus (geography*.xml), the fact base
(geobase*), and the splits of Shaw et al. 2021 (length_1.json, standard.json, ...).

The folder of a recipe is called like its split; the folder geoquery contains the split by length. A
recipe whose name ends in _dev divides the training part: it trains on one part and tests on the
other, the development set.

The texts `recombined` and `recombined_chain` contain additional training examples (recombine.py),
and the same dev and test texts, with gold trees or chains.
"""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from constituency import merged, read_phrase, words_of
from entities import question, read_entities, replace_entities
from example import Example
from funql import ALL, ANY, read, renamed
from recombine import recombined

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.atomic import written_together
from fairseq_posattn.files.files import open_to_read, read_json, read_lines

CORPUS, FACTS, LENGTH = "geography*.xml", "geobase*", "length"
FILES = {"standard": "standard.json"}  # the other splits are in SPLIT_1.json
HELD_OUT = 0.3  # of the training part, for the development set
RECOMBINED, NEW = "recombined", 2000  # the number of new training examples
REMEDY = "get the file again"


def collect(collector: Collector) -> None:
    """Write both sides of each text, with trees, alignments and the depths of the programs."""
    texts = collector.content.corpus.names
    if collector.shell.does(f"write {', '.join(texts)} from the files in {collector.folder}"):
        train, *others = divided(collector)
        write(collector, collector.raw, [train, *others])
        wanted = [trees for trees in collector.recipe.controls if trees.startswith(RECOMBINED)]
        train = train + recombined(train, NEW) if wanted else train
        for trees in wanted:
            (collector.raw / trees).mkdir(exist_ok=True)
            write(collector, collector.raw / trees, [train, *others], trees != RECOMBINED)


def write(
    collector: Collector, folder: Path, parts: Sequence[Sequence[Example]], chain: bool = False
) -> None:
    """Write all texts of a recipe, with gold trees or chains, to a folder."""
    notation, texts = collector.content.target, collector.content.corpus.names
    kinds = ("conllu", collector.content.source, notation, "align", "program_depth")
    outs = [folder / f"{text}.{kind}" for text in texts for kind in kinds]
    with written_together(outs) as files:
        for k, examples in enumerate(parts):
            for one in examples:
                for j, written in enumerate(one.parts(notation, chain)):
                    files[k * len(kinds) + j].write(written)


def divided(collector: Collector) -> list[list[Example]]:
    """Return the examples for training, development and testing."""
    name, _, is_dev = collector.recipe.name.partition("_")
    split = LENGTH if name == "geoquery" else name
    path = collector.find(FILES.get(split, f"{split}_1.json"))
    examples = read_examples(found(collector.folder, CORPUS), found(collector.folder, FACTS))
    content = read_json(path, REMEDY)
    try:
        train, test = ([examples[number] for number in content[part]] for part in ("train", "test"))
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: {error} is missing; {REMEDY}") from error
    held_out = longest(train) if split == LENGTH else whole_programs(train)
    dev = [train[k] for k in sorted(held_out)]
    if is_dev:
        train = [one for k, one in enumerate(train) if k not in held_out]
        test = dev
    return [train, dev, test]


def found(folder: Path, pattern: str) -> Path:
    """Return the file of a folder that matches, plain or compressed."""
    there = sorted(path for end in ("", ".*") for path in folder.glob(pattern + end))
    if not there:
        raise InputError(
            f"{folder}/{pattern}: there is no such file; copy it there or give another folder with "
            "--from"
        )
    return there[0]


def longest(examples: Sequence[Example]) -> set[int]:
    """Return the positions of the longest questions."""
    order = sorted(range(len(examples)), key=lambda k: len(examples[k].words))
    return set(order[round(len(order) * (1 - HELD_OUT)) :])


def whole_programs(examples: Sequence[Example]) -> set[int]:
    """Return the positions of all examples of randomly chosen programs."""
    bare = [tuple(part.name for part in one.program.parts) for one in examples]
    programs = list(dict.fromkeys(bare))
    random.Random(1).shuffle(programs)
    chosen: set[int] = set()
    while len(chosen) < len(examples) * HELD_OUT:
        program = programs.pop()
        chosen.update(k for k, one in enumerate(bare) if one == program)
    return chosen


def read_examples(corpus: Path, facts: Path) -> dict[int, Example]:
    """Return the examples that have a tree, by their numbers in the corpus."""
    known = read_entities(read_lines(facts))
    with open_to_read(corpus) as file:
        try:
            root = xml.parse(file).getroot()
        except xml.ParseError as error:
            raise InputError(f"{corpus}: {error}; {REMEDY}") from error
    found = {}
    for one in root:
        if one.find("syn[@lang='en']") is not None:
            try:
                found[int(one.attrib["id"])] = example(one, known)
            except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
                number = one.attrib.get("id")
                raise InputError(f"{corpus}: example {number}: {error}; {REMEDY}") from error
    return found


def example(one: xml.Element, known: Mapping[str, list[str]]) -> Example:
    """Convert an <example> of the corpus."""
    text = one.find("mrl[@lang='geo-funql']").text.strip()
    program = read(text, nodes_of(one.find("mrl-parse")))
    words = words_of(read_phrase(one.find("syn[@lang='en']").text.strip()))
    asked = question([word.form for word in words])
    replace_entities(asked, [part.name for part in program.parts], known)
    expressed = expressed_nodes(one.find("augsyn[@lang='en']").text, len(words))
    nodes = [frozenset().union(*(expressed[k] for k in part)) for part in asked.parts]
    return Example(merged(words, asked), nodes, renamed(program, asked.placeholders))


def nodes_of(parse: xml.Element) -> Iterator[tuple[int, str]]:
    """Yield node and kind of each name of a program, from <mrl-parse>."""
    for node in parse.findall("node"):
        kind, _, production = node.text.partition("->")
        for name in re.findall(r"'[^']*'|[^\s(),'{}]+", production):
            if not name.startswith("*") and name not in (ALL, ANY):
                yield int(node.attrib["id"]), kind.strip().removeprefix("*n:")


def expressed_nodes(augsyn: str, count: int) -> list[set[int]]:
    """Return the nodes of the program that each word expresses, from <augsyn>."""
    marks = augsyn.strip().removeprefix("(S").removesuffix(")").split()
    if len(marks) != count:
        raise InputError(f"augsyn has {len(marks)} words, but syn has {count}")
    return [set(map(int, re.findall(r":(\d+)", mark.rpartition("-[")[2]))) for mark in marks]
