"""Score groups of test sentences of similar length, tree depth or number of split words, or with
the same label.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any

from sacrebleu.metrics import BLEU

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.scoring.metrics.comparison import gap, with_marks
from fairseq_posattn.scoring.metrics.runs import (
    Counted,
    FromSums,
    Samples,
    ends_of,
    resampled,
)
from fairseq_posattn.scoring.metrics.texts import Text, check_count
from fairseq_posattn.scoring.score_record import MEAN, Bucket, Part, Subset, Subsets
from fairseq_posattn.scoring.statistics import Resampled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.conllu import ConlluBlock, parse_block
from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.projection import words_of_pieces

Range = tuple[int, "int | None"]  # inclusive; None means no upper limit
Measure = tuple[Sequence["int | None"], Sequence[Range]]  # value of each sentence, and the ranges

LENGTHS: tuple[Range, ...] = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, None))
DEPTHS: tuple[Range, ...] = ((0, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, None))
LONGEST: tuple[Range, ...] = ((0, 2), (3, 4), (5, 6), (7, 9), (10, 14), (15, None))
SPLIT_WORDS: tuple[Range, ...] = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, None))

ODD_LABELS = {
    "": "the line is empty, expected a label",
    MEAN: f"the label '{MEAN}' is reserved for the mean over all labels; choose another name",
}
COMPUTED = ("length", "depth", "longest_dependency", "split_words")


@dataclass(frozen=True)
class Splitting:
    """Computes the main score on parts of a test set.

    tables: the metric's statistics for the system and, if there is one, for the baseline.
    """

    metric: FromSums
    tables: Sequence[Counted]
    samples: Samples

    def drawn(self, chosen: Sequence[int], number: int = 0) -> list[Resampled]:
        """Score bootstrap samples of the chosen sentences; `number` is added to the random seed."""
        seed = None if self.samples.seed is None else self.samples.seed + number
        samples = replace(self.samples, seed=seed)
        return resampled(self.metric, [table[:, chosen] for table in self.tables], samples)

    def figures(self, found: Sequence[Resampled], sentences: int) -> dict[str, Any]:
        """Return the fields of a Part, given the scores of the system and of any baseline."""
        runs = found[0].scores.tolist()
        figures = {"sentences": sentences, "score": mean(runs)}
        if len(runs) > 1:
            figures |= {"deviation": stdev(runs), "runs": runs}
        if len(found) > 1:
            figures["difference"] = gap(found[1], found[0])
        return {**figures, "interval": ends_of(self.metric, found[0])}

    def by_range(self, measures: Sequence[int | None], ranges: Sequence[Range]) -> list[Bucket]:
        """Return a part for each non-empty range; sentences whose measure is None are ignored."""
        found = {}
        for first, last in ranges:
            chosen = [k for k, measure in enumerate(measures) if within(measure, first, last)]
            if chosen:
                figures = self.figures(self.drawn(chosen), len(chosen))
                if isinstance(self.metric, BLEU):
                    figures["bleu"] = figures.pop("score")
                found[first] = Bucket(first=first, last=last, **figures)
        return list(with_marks(found).values())

    def by_label(self, labels: Sequence[str]) -> Subsets:
        """Return a part for each label, and the unweighted mean over the labels.

        The bootstrap samples of different labels are drawn independently.
        """
        drawn, found = [], {}
        for number, label in enumerate(dict.fromkeys(labels)):
            chosen = [k for k, one in enumerate(labels) if one == label]
            drawn.append(self.drawn(chosen, number))
            found[label] = Subset(name=label, **self.figures(drawn[-1], len(chosen)))
        means = [Resampled.mean_of(one) for one in zip(*drawn, strict=True)]
        mean_of_all = Part(**self.figures(means, len(labels)))
        return Subsets(labels=list(with_marks(found).values()), mean=mean_of_all)


def within(measure: int | None, first: int, last: int | None) -> bool:
    return measure is not None and measure >= first and (last is None or measure <= last)


def tree_depths(blocks: Sequence[ConlluBlock]) -> list[int | None]:
    """Return the depth of each tree, or None for a sentence without a tree."""
    return [
        max(depths(tree.parents), default=None) if tree.parents else None
        for tree in map(parse_block, blocks)
    ]


def longest_dependencies(blocks: Sequence[ConlluBlock]) -> list[int | None]:
    """Return the largest distance between a word and its parent in each tree.

    The distance is 0 for a sentence of one word, and None for a sentence without a tree.
    """
    return [
        max((abs(k - head) for k, head in enumerate(tree.parents, 1) if head), default=0)
        if tree.parents
        else None
        for tree in map(parse_block, blocks)
    ]


def read_labels(given: Sequence[str], text: Text) -> dict[str, list[str]]:
    """Read sentence labels from arguments of the form NAME=FILE, and return them by name."""
    found: dict[str, list[str]] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise InputError(
                f"--subsets is '{one}', expected NAME=FILE, such as category=categories.txt"
            )
        if name in found or name in COMPUTED:
            taken = "is given twice" if name in found else "is a reserved name"
            raise InputError(f"'{one}': {name} {taken}; choose another name")
        found[name] = [" ".join(line.split()) for line in read_lines(path)]
        for odd, fault in ODD_LABELS.items():
            if odd in found[name]:
                raise InputError(f"{path}:{found[name].index(odd) + 1}: {fault}")
        check_count(text, path, len(found[name]), "labels")
    return found


def split_words(text: Text, separator: str) -> list[int]:
    """Return, for each line, the number of words that are split into several pieces."""
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

    A piece that consists only of ▁ starts a word, but is not counted.
    """
    if separator != SPACE:
        return words_of_pieces(pieces, separator)[1]
    counts: list[int] = []
    for piece in pieces:
        if piece.startswith(SPACE) or not counts:
            counts.append(0)
        counts[-1] += piece != SPACE
    return counts
