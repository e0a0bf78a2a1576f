"""Words, parents and pieces -> trees over the pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import read_lines, same_number_of_lines
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.io.progress import progress
from fairseq_posattn.text.segmenters import SentencePiece
from fairseq_posattn.trees import projection
from fairseq_posattn.trees.checks import TreeError, flat_tree
from fairseq_posattn.trees.lines import Tree, read_parents, read_words, tree_line
from fairseq_posattn.trees.sentence import Sentence, of_tokens
from fairseq_posattn.trees.whitespace import shortened

MISSING_TREE = ("error", "flat")


@dataclass(frozen=True)
class ProjectionInputs:
    """Files of the same sentences, and what to do with the doubtful ones.

    text: the lines that the pieces of a sentencepiece model were made from.
    """

    words: str
    parents: str
    pieces: str
    text: str | None = None
    sentencepiece: str | None = None
    separator: str = projection.SEPARATOR
    several_roots: str = "error"
    missing_tree: str = "error"

    def __post_init__(self):
        if (self.text is None) != (self.sentencepiece is None):
            raise InputError("--sentencepiece MODEL and --text, what it segmented, go together")

    @property
    def files(self) -> list[str]:
        return [self.words, self.parents, self.pieces, *([self.text] if self.text else [])]


def project(inputs: ProjectionInputs, out: str) -> None:
    """Write the tree of each sentence, with the number of pieces of each word."""
    refuse_unwritable(Path(out))
    sentences = same_number_of_lines(inputs.files)
    with written_whole(out) as file:
        for parents, counts in progress(projected(inputs), sentences):
            file.write(tree_line(parents, counts) + "\n")


def projected(inputs: ProjectionInputs) -> Iterator[Tree]:
    """The trees with their pieces, one after the other."""
    pieces = read_words(inputs.pieces)
    if inputs.sentencepiece is None:
        for number, (sentence, line) in enumerate(zip(trees(inputs), pieces, strict=True), start=1):
            where = f"{inputs.pieces}:{number}"
            counts = projection.project(sentence, line, where, inputs.separator)
            yield parents_of(sentence), counts
        return
    assert inputs.text is not None  # as __post_init__ has seen
    segmenter = SentencePiece(inputs.sentencepiece)
    lines = zip(trees(inputs), pieces, read_lines(inputs.text), strict=True)
    for number, (sentence, line, text) in enumerate(lines, start=1):
        spans = spans_of(segmenter, text, line, f"{inputs.pieces}:{number}")
        where = f"{inputs.text}:{number}"
        yield parents_of(sentence), projection.project_line(sentence, text, spans, where)


def parents_of(sentence: Sentence) -> Sequence[int]:
    """The parents of a sentence that `trees` gave, which therefore has a tree."""
    assert sentence.parents is not None
    return sentence.parents


def trees(inputs: ProjectionInputs) -> Iterator[Sentence]:
    """The trees of the sentences, flat ones where that is wished."""
    files = read_words(inputs.words), read_parents(inputs.parents, inputs.several_roots)
    for number, (tokens, (parents, counts)) in enumerate(zip(*files, strict=True), start=1):
        if parents is None:
            parents = stand_in_tree(tokens, f"{inputs.parents}:{number}", inputs.missing_tree)
        yield of_tokens(tokens, parents, counts)


def spans_of(segmenter: SentencePiece, text: str, pieces: Sequence[str], where: str) -> list:
    """Where the pieces of a line lie in its text, once it is sure that they are of this text."""
    if segmenter.segment(text) != pieces:
        raise InputError(
            f"{where}: not the pieces that {segmenter.model} makes of '{shortened(text)}': "
            f"'{shortened(' '.join(pieces))}'; segment the text again with this model"
        )
    return segmenter.spans(text)


def stand_in_tree(words: Sequence[str], where: str, missing_tree: str) -> list[int]:
    """The tree of a sentence that came without one."""
    if missing_tree == "error":
        raise TreeError(
            f"{where}: no tree for '{shortened(' '.join(words))}'; "
            "parse it, or take a flat tree with --missing-tree flat"
        )
    return flat_tree(len(words))
