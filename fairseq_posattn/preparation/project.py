"""Project dependency trees from words to pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import read_lines, same_number_of_lines
from fairseq_posattn.files.paths import refuse_unwritable
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.records import one_of, option
from fairseq_posattn.jobs.lines import Part
from fairseq_posattn.text.parsing.options import root_option
from fairseq_posattn.text.segmenters import SentencePiece
from fairseq_posattn.trees import projection
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.lines import (
    NO_TREE,
    Parents,
    parse_labels,
    read_parents,
    read_words,
    tree_line,
)
from fairseq_posattn.trees.sentence import Sentence, Tags, Tree, labels_of, of_tokens, shortened


@dataclass(frozen=True)
class ProjectionInputs:
    """The options and files of a projection; all files contain the same sentences.

    parents: None if the sentences have no trees; `control` must then be one that needs no trees,
        such as chain.
    control: the control trees that replace the trees of the sentences.
    """

    words: str = option("read words from this file, made by posattn extract", required=True)
    parents: str | None = option(
        "read parents from this file, made by posattn extract", required=True
    )
    pieces: str = option("read pieces from this file, made by posattn segment", required=True)
    text: str | None = option(
        "with --sentencepiece: file with the text that the model segmented", None
    )
    sentencepiece: str | None = option(
        "sentencepiece model that produced the pieces", None, metavar="MODEL"
    )
    separator: str = option(
        "marker at the end of each piece except the last piece of a word (default: %(default)s)",
        projection.SEPARATOR,
    )
    several_roots: str = root_option()
    missing_tree: str = option(
        "stop at a sentence without a tree (error, the default), or write a flat tree for it, in "
        "which each word is a child of the first word (flat)",
        "error",
        one_of("error", "flat"),
    )
    control: TreeControl = field(default_factory=TreeControl)
    labels: str | None = option(
        "read relations and parts of speech from this file, made by posattn extract (default: "
        "write trees without labels)",
        None,
    )

    def __post_init__(self):
        if (self.text is None) != (self.sentencepiece is None):
            raise InputError(
                "--sentencepiece MODEL requires --text, the text that it segmented, and vice "
                "versa; give both or neither"
            )

    @property
    def files(self) -> list[str]:
        """Return all files, which must have the same number of lines."""
        paths = (self.words, self.parents, self.pieces, self.text, self.labels)
        return list(dict.fromkeys(path for path in paths if path))

    def in_files(self, parts: Mapping[str, str]) -> ProjectionInputs:
        """Return a copy with different files, such as those of a shard."""
        names = ("words", "parents", "pieces", "text", "labels")
        found = {name: parts.get(getattr(self, name)) for name in names}
        return replace(self, **found)  # type: ignore[arg-type]  # the other fields stay


@dataclass(frozen=True)
class ProjectionRequest(ProjectionInputs):
    """The options of posattn project."""

    command: ClassVar = "posattn project"
    out: str | None = option("write the trees to this file (default: PIECES.trees)", None)


def project(inputs: ProjectionInputs, out: str) -> None:
    """Write the projected tree of each sentence: parents, and the number of pieces of each word."""
    refuse_unwritable(Path(out))
    sentences = same_number_of_lines(inputs.files)
    with written_whole(out) as file:
        for tree in Progress(projected(inputs), sentences):
            file.write(tree_line(*tree) + "\n")


def project_lines(whole: ProjectionInputs, part: Part) -> None:
    project(whole.in_files(dict(zip(whole.files, part.inputs, strict=True))), part.outputs[0])


def projected(inputs: ProjectionInputs) -> Iterator[Tree]:
    """Yield the projected tree of each sentence."""
    pieces = read_words(inputs.pieces)
    if inputs.sentencepiece is None:
        for number, (sentence, line) in enumerate(zip(trees(inputs), pieces, strict=True), start=1):
            where = f"{inputs.pieces}:{number}"
            counts = projection.project(sentence, line, where, inputs.separator)
            yield tree_of(sentence, counts, inputs)
        return
    assert inputs.text is not None  # checked in __post_init__
    segmenter = SentencePiece(inputs.sentencepiece)
    lines = zip(trees(inputs), pieces, read_lines(inputs.text), strict=True)
    for number, (sentence, line, text) in enumerate(lines, start=1):
        spans = spans_of(segmenter, text, line, f"{inputs.pieces}:{number}")
        where = f"{inputs.text}:{number}"
        yield tree_of(sentence, projection.project_line(sentence, text, spans, where), inputs)


def tree_of(sentence: Sentence, counts: Sequence[int], inputs: ProjectionInputs) -> Tree:
    assert sentence.parents is not None  # guaranteed by `trees`
    return Tree(sentence.parents, counts, labels_of(sentence) if inputs.labels else None)


def trees(inputs: ProjectionInputs) -> Iterator[Sentence]:
    """Yield the sentences with their control trees.

    With --missing-tree flat, a sentence without a tree first receives a flat tree.
    """
    labels = iter(read_lines(inputs.labels)) if inputs.labels else None
    no_parents: Iterator[Parents] = ((None, None) for _ in read_lines(inputs.words))
    own = read_parents(inputs.parents, inputs.several_roots) if inputs.parents else no_parents
    lines = zip(read_words(inputs.words), own, strict=True)
    for number, (tokens, (parents, counts)) in enumerate(lines, start=1):
        of_tree = parents if counts is None else counts
        if of_tree is not None and len(of_tree) != len(tokens):
            raise TreeError(
                f"{inputs.parents}:{number}: the line has parents of {len(of_tree)} words, but the "
                f"same line of {inputs.words} has {len(tokens)} words; extract both from the same "
                "CoNLL-U file"
            )
        sentence = of_tokens(tokens, parents, counts)
        if parents is None and inputs.control.needs_trees:
            if inputs.missing_tree == "error":
                raise TreeError(
                    f"{inputs.parents}:{number}: the sentence '{shortened(str(sentence))}' has no "
                    "tree; parse it, or use a flat tree with --missing-tree flat"
                )
            sentence = sentence.flat()
        if labels is not None:
            sentence = labelled(sentence, next(labels), f"{inputs.labels}:{number}")
        yield inputs.control.of(sentence)


def labelled(sentence: Sentence, line: str, where: str) -> Sentence:
    """Add the labels in `line` to a sentence, but keep the relations of flat trees."""
    if line == NO_TREE:
        return sentence
    labels = parse_labels(line, len(sentence.words), where)
    relations = sentence.relations or list(labels.relations)
    if sentence.relations is None and sentence.parents is not None:
        pairs = zip(relations, sentence.parents, strict=True)  # former roots may have a parent
        relations = ["parataxis" if name == "root" and parent else name for name, parent in pairs]
    return replace(sentence, relations=relations, tags=[Tags(upos=tag) for tag in labels.tags])


def spans_of(segmenter: SentencePiece, text: str, pieces: Sequence[str], where: str) -> list:
    """Return the spans of the pieces of a line.

    Raise an InputError if a different model produced the pieces.
    """
    if segmenter.segment(text) != pieces:
        raise InputError(
            f"{where}: the pieces '{shortened(' '.join(pieces))}' differ from the segmentation of "
            f"'{shortened(text)}' by {segmenter.model}; segment the text again with this model"
        )
    return segmenter.spans(text)
