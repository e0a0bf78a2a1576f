"""Extract questions and programs of GeoQuery, with trees and alignments, for the splits of NQG.

The corpus folder contains the multilingual GeoQuery corpus (geography*.xml), the fact base
(geobase*), and the splits of Shaw et al. 2021 (length_1.json, standard.json, ...).

Each recipe folder is named after its split; the folder geoquery contains the split by length. A
recipe whose name ends in _dev splits the training set: it trains on one part and tests on the
other, the development set.

The texts `recombined...` contain additional training examples (recombine.py), and the same dev and
test texts:

recombined: with gold trees.
recombined_chain: the same examples, with chains.
recombined_along_chain: with chains, which also determine the recombination and the alignments.
recombined_parsed: with the trees of a parser, which also determine both.
    questions.conllu in the corpus folder contains the trees of all lines of questions.txt, which
    this program writes to the folder of the texts.
"""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as xml
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from constituency import Word, merged, read_phrase, words_of
from entities import question, read_entities, replace_entities
from example import Example
from funql import ALL, ANY, read, renamed
from recombine import recombined

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.atomic import written_together, written_whole
from fairseq_posattn.files.files import open_to_read, read_json, read_lines
from fairseq_posattn.files.terminal import say
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.sentence import Sentence

CORPUS, FACTS, LENGTH = "geography*.xml", "geobase*", "length"
FILES = {"standard": "standard.json"}  # the other splits are in SPLIT_1.json
HELD_OUT = 0.3  # of the training part, for the development set
QUESTIONS, PARSES = "questions.txt", "questions.conllu"
RECOMBINED, CHAIN = "recombined", "recombined_chain"
ALONG_CHAIN, PARSED = "recombined_along_chain", "recombined_parsed"
NEW = 2000  # the number of new training examples
REMEDY, PARSE_AGAIN = "download the file again", f"parse {QUESTIONS} again"


def collect(collector: Collector) -> None:
    """Write both sides of each text, with trees, alignments and the depths of the programs."""
    texts = collector.content.corpus.names
    if collector.shell.does(f"write {', '.join(texts)} from the files in {collector.folder}"):
        gold = divided(collector)
        write(collector, collector.raw, gold)
        new = recombined(gold[0], NEW)
        for trees in collector.recipe.controls:
            if trees == PARSED and not (collector.folder / PARSES).exists():
                say(
                    "data with parsed trees are skipped; to build them, run posattn parse "
                    f"{collector.raw / QUESTIONS} --tokenized --out {collector.folder / PARSES}"
                )
                collector.skipped.add(trees)
            elif trees.startswith(RECOMBINED):
                own_trees = trees in (ALONG_CHAIN, PARSED)
                train, *others = divided(collector, trees) if own_trees else gold
                added = recombined(train, NEW) if own_trees else new
                (collector.raw / trees).mkdir(exist_ok=True)
                write(collector, collector.raw / trees, [train + added, *others], trees == CHAIN)


def write(
    collector: Collector, folder: Path, parts: Sequence[Sequence[Example]], chain: bool = False
) -> None:
    """Write all texts of a recipe, with their trees or chains, to a folder."""
    notation, texts = collector.content.target, collector.content.corpus.names
    kinds = ("conllu", collector.content.source, notation, "align", "program_depth")
    outs = [folder / f"{text}.{kind}" for text in texts for kind in kinds]
    with written_together(outs) as files:
        for k, examples in enumerate(parts):
            for one in examples:
                for j, written in enumerate(one.parts(notation, chain)):
                    files[k * len(kinds) + j].write(written)


def divided(collector: Collector, trees: str = RECOMBINED) -> list[list[Example]]:
    """Return the examples for training, development and testing, with trees of one kind."""
    name, _, is_dev = collector.recipe.name.partition("_")
    split = LENGTH if name == "geoquery" else name
    path = collector.find(FILES.get(split, f"{split}_1.json"))
    examples = read_examples(collector, trees)
    content = read_json(path, REMEDY)
    try:
        train, test = ([examples[number] for number in content[part]] for part in ("train", "test"))
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: a split or example is missing ({error}); {REMEDY}") from error
    held_out = longest(train) if split == LENGTH else whole_programs(train)
    dev = [train[k] for k in sorted(held_out)]
    if is_dev:
        train = [one for k, one in enumerate(train) if k not in held_out]
        test = dev
    return [train, dev, test]


def found(folder: Path, pattern: str) -> Path:
    """Return the matching file in a folder, plain or compressed."""
    there = sorted(path for end in ("", ".*") for path in folder.glob(pattern + end))
    if not there:
        raise InputError(
            f"{folder}/{pattern}: there is no such file; copy it there, or pass another folder "
            "with --from"
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


def read_examples(collector: Collector, trees: str) -> dict[int, Example]:
    """Return the examples that have a gold tree, by their numbers in the corpus."""
    corpus = found(collector.folder, CORPUS)
    known = read_entities(read_lines(found(collector.folder, FACTS)))
    with open_to_read(corpus) as file:
        try:
            root = xml.parse(file).getroot()
        except xml.ParseError as error:
            raise InputError(f"{corpus}: {error}; {REMEDY}") from error
    with_tree = [one for one in root if one.find("syn[@lang='en']") is not None]
    parsed = read_parsed(collector, len(with_tree)) if trees == PARSED else [None] * len(with_tree)
    examples: dict[int, Example] = {}
    with written_whole(collector.raw / QUESTIONS) as questions:
        for one, tree in zip(with_tree, parsed, strict=True):
            with locating_errors(corpus, one):
                words = words_of(read_phrase(one.find("syn[@lang='en']").text.strip()))
            questions.write(f"{' '.join(word.form for word in words)} ?\n")
            if tree:
                words = parsed_words(tree, words)
            elif trees == ALONG_CHAIN:
                words = [replace(w, parent=k - 1, relation="") for k, w in enumerate(words)]
            with locating_errors(corpus, one):
                examples[int(one.attrib["id"])] = example(one, words, known)
    return examples


@contextmanager
def locating_errors(corpus: Path, one: xml.Element) -> Iterator[None]:
    """Convert errors in the block to InputErrors that contain the example's number."""
    try:
        yield
    except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
        number = one.attrib.get("id")
        raise InputError(f"{corpus}: example {number} is invalid ({error}); {REMEDY}") from error


def read_parsed(collector: Collector, count: int) -> list[Sentence]:
    """Return the parsed questions."""
    path = collector.folder / PARSES
    found = list(read_labelled(path))
    if len(found) != count:
        raise InputError(f"{path} has {len(found)} trees for {count} questions; {PARSE_AGAIN}")
    return found


def parsed_words(tree: Sentence, words: Sequence[Word]) -> list[Word]:
    """Return the words with the parser's tree, without its question mark."""
    if tree.words != [*(word.form for word in words), "?"]:
        raise InputError(f"{tree.where}: the words differ from the question's; {PARSE_AGAIN}")
    parents = [parent - 1 for parent in tree.parents]
    mark = len(words)
    if mark in parents:  # the first of the children of the question mark replaces it
        first = parents.index(mark)
        parents = [first if parent == mark else parent for parent in parents]
        parents[first] = parents[mark]
    return [
        replace(word, tag=tags.upos, parent=parent, relation=relation)
        for word, tags, parent, relation in zip(
            words, tree.tags, parents[:mark], tree.relations[:mark], strict=False
        )
    ]


def example(one: xml.Element, words: Sequence[Word], known: Mapping[str, list[str]]) -> Example:
    """Convert an <example> of the corpus, whose question has these words."""
    text = one.find("mrl[@lang='geo-funql']").text.strip()
    program = read(text, nodes_of(one.find("mrl-parse")))
    asked = question([word.form for word in words])
    replace_entities(asked, [part.name for part in program.parts], known)
    expressed = expressed_nodes(one.find("augsyn[@lang='en']").text, len(words))
    nodes = [frozenset().union(*(expressed[k] for k in part)) for part in asked.parts]
    return Example(merged(words, asked), nodes, renamed(program, asked.placeholders))


def nodes_of(parse: xml.Element) -> Iterator[tuple[int, str]]:
    """Yield the node ID and kind of each name in <mrl-parse>."""
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
