"""Project trees onto pieces: read words, parents and pieces, and write trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import option
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import read_lines, same_number_of_lines
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.io.progress import progress
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
from fairseq_posattn.work.lines import Part


@dataclass(frozen=True)
class ProjectionInputs:
    """These inputs name files of the same sentences, and say what is done with doubtful trees.

    parents: None if there are none, which the control must not need then.
    control: says which trees the sentences get instead of their own.
    """

    words: str = option("read the words that posattn extract wrote to this file", required=True)
    parents: str | None = option(
        "read the parents that posattn extract wrote to this file", required=True
    )
    pieces: str = option("read the pieces that posattn segment wrote to this file", required=True)
    text: str | None = option(
        "with --sentencepiece: the lines of this file were segmented by the model", None
    )
    sentencepiece: str | None = option("the pieces were made by this model", None, "", "MODEL")
    separator: str = option(
        "this marks the end of a piece that is joined to the next (default: %(default)s)",
        projection.SEPARATOR,
    )
    several_roots: str = "error"
    missing_tree: str = option(
        "if a sentence has no tree, stop with an error (default), or write a flat tree, in which "
        "each word is a child of the first",
        "error",
        choices=("error", "flat"),
    )
    control: TreeControl = field(default_factory=TreeControl)
    labels: str | None = option(
        "read the relations and parts of speech that posattn extract wrote to this file; without "
        "it the trees have none",
        None,
    )

    def __post_init__(self):
        if (self.text is None) != (self.sentencepiece is None):
            raise InputError(
                "--sentencepiece MODEL and --text, the lines that it segmented, need each other; "
                "give both or none"
            )

    @property
    def files(self) -> list[str]:
        """Return the files that must have the same number of lines."""
        paths = (self.words, self.parents, self.pieces, self.text, self.labels)
        return list(dict.fromkeys(path for path in paths if path))

    def in_files(self, parts: Mapping[str, str]) -> ProjectionInputs:
        """Return the same inputs in other files, such as those of a shard."""
        names = ("words", "parents", "pieces", "text", "labels")
        found = {name: parts.get(getattr(self, name)) for name in names}
        return replace(self, **found)  # type: ignore[arg-type]  # the other fields stay


def project(inputs: ProjectionInputs, out: str) -> None:
    """Write the tree of each sentence with the number of pieces of each word."""
    refuse_unwritable(Path(out))
    sentences = same_number_of_lines(inputs.files)
    with written_whole(out) as file:
        for tree in progress(projected(inputs), sentences):
            file.write(tree_line(*tree) + "\n")


def project_lines(whole: ProjectionInputs, part: Part) -> None:
    """Project the trees of a text, as a step from line to line."""
    project(whole.in_files(dict(zip(whole.files, part.inputs, strict=True))), part.outputs[0])


def projected(inputs: ProjectionInputs) -> Iterator[Tree]:
    """Yield the tree of each sentence with the number of pieces of each word."""
    pieces = read_words(inputs.pieces)
    if inputs.sentencepiece is None:
        for number, (sentence, line) in enumerate(zip(trees(inputs), pieces, strict=True), start=1):
            where = f"{inputs.pieces}:{number}"
            counts = projection.project(sentence, line, where, inputs.separator)
            yield tree_of(sentence, counts, inputs)
        return
    assert inputs.text is not None  # __post_init__ has checked it
    segmenter = SentencePiece(inputs.sentencepiece)
    lines = zip(trees(inputs), pieces, read_lines(inputs.text), strict=True)
    for number, (sentence, line, text) in enumerate(lines, start=1):
        spans = spans_of(segmenter, text, line, f"{inputs.pieces}:{number}")
        where = f"{inputs.text}:{number}"
        yield tree_of(sentence, projection.project_line(sentence, text, spans, where), inputs)


def tree_of(sentence: Sentence, counts: Sequence[int], inputs: ProjectionInputs) -> Tree:
    """Return the tree of a sentence of `trees`, with labels if the inputs have them."""
    assert sentence.parents is not None  # `trees` always gives one
    return Tree(sentence.parents, counts, labels_of(sentence) if inputs.labels else None)


def trees(inputs: ProjectionInputs) -> Iterator[Sentence]:
    """Yield the sentences with the trees that the control gives them.

    A sentence that lacks its own tree gets a flat one first if the options ask for it.
    """
    labels = iter(read_lines(inputs.labels)) if inputs.labels else None
    lines = zip(read_words(inputs.words), read_own_parents(inputs), strict=True)
    for number, (tokens, (parents, counts)) in enumerate(lines, start=1):
        of_tree = parents if counts is None else counts
        if of_tree is not None and len(of_tree) != len(tokens):
            raise TreeError(
                f"{inputs.parents}:{number}: the line has parents of {len(of_tree)} words, but "
                f"that of {inputs.words} has {len(tokens)} words; make both from the same "
                "CoNLL-U file"
            )
        sentence = of_tokens(tokens, parents, counts)
        if parents is None and inputs.control.needs_trees:
            refuse_missing_tree(sentence, f"{inputs.parents}:{number}", inputs.missing_tree)
            sentence = sentence.flat()
        if labels is not None:
            sentence = labelled(sentence, next(labels), f"{inputs.labels}:{number}")
        yield inputs.control.of(sentence)


def labelled(sentence: Sentence, line: str, where: str) -> Sentence:
    """Return a sentence with the labels of a line; a flat tree has its own relations already."""
    if line == NO_TREE:
        return sentence
    labels = parse_labels(line, len(sentence.words), where)
    relations = sentence.relations or list(labels.relations)
    if sentence.relations is None and sentence.parents is not None:
        pairs = zip(relations, sentence.parents, strict=True)  # further roots have a parent now
        relations = ["parataxis" if name == "root" and parent else name for name, parent in pairs]
    return replace(sentence, relations=relations, tags=[Tags(upos=tag) for tag in labels.tags])


def read_own_parents(inputs: ProjectionInputs) -> Iterator[Parents]:
    """Yield the parents of each sentence, or no parents where there is no file of them."""
    if inputs.parents is not None:
        yield from read_parents(inputs.parents, inputs.several_roots)
    else:
        yield from ((None, None) for _ in read_lines(inputs.words))


def spans_of(segmenter: SentencePiece, text: str, pieces: Sequence[str], where: str) -> list:
    """Return where the pieces of a line lie in its text, after a check that they spell it."""
    if segmenter.segment(text) != pieces:
        raise InputError(
            f"{where}: the pieces '{shortened(' '.join(pieces))}' are not those that "
            f"{segmenter.model} makes of '{shortened(text)}'; segment the text again with this "
            "model"
        )
    return segmenter.spans(text)


def refuse_missing_tree(sentence: Sentence, where: str, missing_tree: str) -> None:
    """Refuse a sentence without a tree, unless --missing-tree says that it gets a flat one."""
    if missing_tree == "error":
        raise TreeError(
            f"{where}: there is no tree for '{shortened(str(sentence))}'; "
            "parse it, or take a flat tree with --missing-tree flat"
        )
