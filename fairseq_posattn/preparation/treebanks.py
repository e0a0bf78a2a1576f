"""Extract words, parents and labels from CoNLL-U, or replace trees by control trees."""

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from fairseq_posattn.files.atomic import replaced_whole, written_together
from fairseq_posattn.files.files import open_to_write
from fairseq_posattn.files.progress import progress, say
from fairseq_posattn.files.records import option
from fairseq_posattn.files.requests import options_of
from fairseq_posattn.text.parsing.options import root_option
from fairseq_posattn.trees.conllu import (
    DEPREL,
    HEAD,
    ConlluBlock,
    parse_all_columns,
    read_blocks,
    read_labelled,
)
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.lines import NO_TREE, labels_line, parents_line, words_line
from fairseq_posattn.trees.sentence import labels_of

DEPS = 8  # the column of enhanced dependencies, which are removed from control trees


@dataclass
class Extracted:
    """How many sentences and words were extracted, and how many sentences have no tree."""

    sentences: int = 0
    words: int = 0
    without_tree: int = 0


@dataclass(frozen=True, kw_only=True)
class ExtractRequest:
    """The options of posattn extract."""

    command: ClassVar = "posattn extract"
    treebanks: list[str] = option(
        "treebanks to read, concatenated in this order; may be .gz, .xz or .zst", metavar="CONLLU"
    )
    out: str = option("write the files OUT.words, OUT.parents and OUT.labels", required=True)
    tokens: bool = option(
        "write contractions as in the text (im) instead of their syntactic words (in dem)", False
    )
    several_roots: str = root_option()


@dataclass(frozen=True, kw_only=True)
class ControlRequest:
    """The options of posattn trees."""

    command: ClassVar = "posattn trees"
    treebank: str = option("treebank to change; may be .gz, .xz or .zst", metavar="CONLLU")
    out: str = option(
        "write the treebank to this file (.conllu, .conllu.xz or .conllu.zst)", required=True
    )
    control: TreeControl = options_of(TreeControl)
    several_roots: str = root_option()


def extract(request: ExtractRequest) -> Extracted:
    """Write the sentences of all treebanks to `out`.words, .parents and .labels."""
    found = Extracted()
    files = [f"{request.out}.{kind}" for kind in ("words", "parents", "labels")]
    with written_together(files) as (words, parents, labels):
        found_in = (read_labelled(path, request.several_roots) for path in request.treebanks)
        for sentence in progress(chain.from_iterable(found_in)):
            forms, counts = sentence.words, None
            if request.tokens:
                forms, counts = sentence.tokens, sentence.words_of_token
            words.write(words_line(forms) + "\n")
            parents.write(parents_line(sentence.parents, counts) + "\n")
            has_none = sentence.parents is None
            labels.write((NO_TREE if has_none else labels_line(labels_of(sentence))) + "\n")
            found.sentences += 1
            found.words += len(sentence.words)
            found.without_tree += has_none
    return found


def control_treebank(request: ControlRequest) -> None:
    """Write a copy of a treebank with control trees."""
    sentences, out, control = 0, request.out, request.control
    with replaced_whole(out) as partial, open_to_write(partial) as file:
        for block in progress(read_blocks(request.treebank)):
            lines = controlled(block, control, request.several_roots)
            file.write(("\n".join(lines) + "\n\n").encode())
            sentences += 1
    say(f"{out}: wrote {sentences:,} sentences with trees of the control '{control.tag}'")


def controlled(block: ConlluBlock, control: TreeControl, several_roots: str) -> list[str]:
    """Return the CoNLL-U lines of a sentence with its control tree."""
    sentence = control.of(parse_all_columns(block, several_roots))
    if sentence.parents is None:
        return block.lines
    tree = iter(zip(sentence.parents, sentence.relations or [], strict=True))
    lines = []
    for line in block.lines:
        columns = line.split("\t")
        if columns[0].isdigit():
            parent, columns[DEPREL] = next(tree)
            columns[HEAD], columns[DEPS] = str(parent), "_"
        lines.append("\t".join(columns))
    return lines
