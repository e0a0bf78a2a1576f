"""Compute BLEU for groups of source sentences, by length, by depth of tree or by split words."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from sacrebleu.metrics.base import Metric

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.scoring.metrics.runs import Counted, Samples, interval, run_scores
from fairseq_posattn.lab.scoring.metrics.texts import Text
from fairseq_posattn.lab.scoring.score_record import Bucket
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.conllu import ConlluBlock, parse_block
from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.projection import words_of_pieces

Range = tuple[int, "int | None"]  # both ends belong to it; None means no end
Measure = tuple[Sequence["int | None"], Sequence[Range]]  # of each sentence, and where it may lie

LENGTHS: tuple[Range, ...] = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, None))
DEPTHS: tuple[Range, ...] = ((0, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, None))
SPLIT_WORDS: tuple[Range, ...] = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, None))


def bleu_by(
    measures: Sequence[int | None],
    ranges: Sequence[Range],
    bleu: Metric,
    counted: Counted,
    samples: Samples,
) -> list[Bucket]:
    """Return BLEU of the sentences whose measure lies in each range, the mean over the runs.

    A measure of None lies in no range. `counted` is what BLEU counts in all sentences.
    """
    found = []
    for first, last in ranges:
        chosen = [k for k, measure in enumerate(measures) if within(measure, first, last)]
        if not chosen:
            continue
        table = counted[:, chosen]
        found.append(
            Bucket(
                first=first,
                last=last,
                sentences=len(chosen),
                bleu=mean(run_scores(bleu, table)),
                interval=interval(bleu, table, samples),
            )
        )
    return found


def within(measure: int | None, first: int, last: int | None) -> bool:
    return measure is not None and measure >= first and (last is None or measure <= last)


def tree_depths(blocks: Sequence[ConlluBlock]) -> list[int | None]:
    """Return the largest depth in each tree, or None for a sentence without a tree."""
    return [
        max(depths(tree.parents), default=None) if tree.parents else None
        for tree in map(parse_block, blocks)
    ]


def split_words(text: Text, separator: str) -> list[int]:
    """Return how many words of each line were split into several pieces."""
    found = []
    for number, line in enumerate(text.lines, start=1):
        try:
            counts = pieces_of_words(line.split(), separator)
        except TreeError as error:
            raise InputError(f"{text.name}:{number}: {error}") from error
        found.append(sum(count > 1 for count in counts))
    return found


def pieces_of_words(pieces: Sequence[str], separator: str) -> list[int]:
    """Return the number of pieces of each word.

    A ▁ starts a word; a ▁ alone is not counted.
    """
    if separator != SPACE:
        return words_of_pieces(pieces, separator)[1]
    counts: list[int] = []
    for piece in pieces:
        if piece.startswith(SPACE) or not counts:
            counts.append(0)
        counts[-1] += piece != SPACE
    return counts
