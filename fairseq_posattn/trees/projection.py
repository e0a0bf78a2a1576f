"""From words to pieces: how many pieces each word of a tree was split into.

A `Joiner` undoes one kind of segmentation: it takes pieces and gives the words that they spell, and
the number of pieces of each. Another segmenter is one more joiner.
"""

from collections.abc import Callable, Sequence

from fairseq_posattn.trees.checks import TreeError

SEPARATOR = "@@"
Joiner = Callable[[Sequence[str]], tuple[list[str], list[int]]]


def words_of_pieces(
    pieces: Sequence[str], separator: str = SEPARATOR
) -> tuple[list[str], list[int]]:
    """The joiner of subword-nmt: a separator at the end of a piece joins it to the next."""
    words, counts, beginning = [], [], []
    for piece in pieces:
        if piece.endswith(separator):
            beginning.append(piece[: -len(separator)])
            continue
        words.append("".join(beginning) + piece)
        counts.append(len(beginning) + 1)
        beginning = []
    if beginning:
        raise TreeError(
            f"the last piece '{pieces[-1]}' has no successor to join; is the line cut off?"
        )
    return words, counts


def project(
    words: Sequence[str],
    parents: Sequence[int],
    pieces: Sequence[str],
    where: str,
    join: Joiner = words_of_pieces,
) -> list[int]:
    """The number of pieces of each word; an error, begun with `where`, if they spell others."""
    if len(parents) != len(words):
        raise TreeError(
            f"{where}: the sentence has {len(words)} words and its tree {len(parents)}; "
            "make both from the same CoNLL-U file"
        )
    try:
        spelled, counts = join(pieces)
    except TreeError as error:
        raise TreeError(f"{where}: {error}") from error
    if spelled != list(words):
        raise TreeError(f"{where}: {_difference(words, spelled)}")
    return counts


def _difference(words: Sequence[str], spelled: Sequence[str]) -> str:
    """Where two lists of words part, and both sentences in full."""
    same = sum(1 for _ in _common_start(words, spelled))
    tree, pieces = (
        repr(side[same]) if same < len(side) else "nothing" for side in (words, spelled)
    )
    return (
        f"the segmenter changed the words: "
        f"word {same + 1} is {tree} in the tree and {pieces} in the pieces; "
        f"the tree has '{' '.join(words)}', the pieces spell '{' '.join(spelled)}'; "
        "segment the words of the tree without normalising them, and with the separator given here"
    )


def _common_start(left: Sequence[str], right: Sequence[str]):
    for a, b in zip(left, right, strict=False):
        if a != b:
            return
        yield a
