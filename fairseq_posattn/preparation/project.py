"""Words, parents and pieces -> trees over the pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fairseq_posattn.command_line import progress
from fairseq_posattn.files import same_number_of_lines, written_whole
from fairseq_posattn.trees import projection
from fairseq_posattn.trees.checks import TreeError, flat_tree
from fairseq_posattn.trees.lines import Tree, read_parents, read_words, tree_line

MISSING_TREE = ("error", "flat")


@dataclass(frozen=True)
class ProjectionInputs:
    """The three files of the same sentences, and what to do with the doubtful ones."""

    words: str
    parents: str
    pieces: str
    separator: str = projection.SEPARATOR
    several_roots: str = "error"
    missing_tree: str = "error"


def project(inputs: ProjectionInputs, out: str) -> None:
    """Write the tree of each sentence, with the number of pieces of each word."""
    sentences = same_number_of_lines([inputs.words, inputs.parents, inputs.pieces])
    with written_whole(out) as file:
        for parents, counts in progress(projected(inputs), sentences):
            file.write(tree_line(parents, counts) + "\n")


def projected(inputs: ProjectionInputs) -> Iterator[Tree]:
    """The trees with their pieces, one after the other."""
    join = partial(projection.words_of_pieces, separator=inputs.separator)
    files = (
        read_words(inputs.words),
        read_parents(inputs.parents, inputs.several_roots),
        read_words(inputs.pieces),
    )
    for number, (words, parents, pieces) in enumerate(zip(*files, strict=True), start=1):
        if parents is None:
            parents = stand_in_tree(words, f"{inputs.parents}:{number}", inputs.missing_tree)
        yield parents, projection.project(words, parents, pieces, f"{inputs.pieces}:{number}", join)


def stand_in_tree(words: Sequence[str], where: str, missing_tree: str) -> list[int]:
    """The tree of a sentence that came without one."""
    if missing_tree == "error":
        raise TreeError(
            f"{where}: no tree for '{' '.join(words)}'; "
            "parse it, or take a flat tree with --missing-tree flat"
        )
    return flat_tree(len(words))
