"""Read the texts that posattn score compares, and check that they match.

All texts must have the same number of sentences. A warning is printed if a tokenised text is
compared with a detokenised one, because the scores would be wrong.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product, starmap
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines, refuse_different_lengths
from fairseq_posattn.files.terminal import say
from fairseq_posattn.scoring.metrics import sgm
from fairseq_posattn.scoring.metrics.scores import Scoring
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.text.languages import lacks_spaces
from fairseq_posattn.trees.conllu import ConlluBlock, read_blocks, text_of

PUNCTUATION = re.compile(r"(\s?)[.,、。，](?!\d)")  # excludes decimal points, as in 3.5


class Text(NamedTuple):
    """The lines of a file, and the file name for error messages."""

    name: str
    lines: Sequence[str]


class Texts(NamedTuple):
    """The texts of a test set.

    system, baseline: the translations by each run of the system and of the baseline.
    source: the tokenised source, or None.
    pieces: the segmented source, or None.
    trees: the source trees; may be empty.
    """

    system: list[Text]
    baseline: list[Text]
    source: Text | None
    pieces: Text | None
    trees: Sequence[ConlluBlock]

    @property
    def written(self) -> list[str | None]:
        """The source sentences, untokenised if the trees contain the original text."""
        unknown = [None] * len(self.system[0].lines)
        texts = [text_of(block) for block in self.trees] or unknown
        words = self.source.lines if self.source else unknown
        return [text or line for text, line in zip(texts, words, strict=True)]


def read_texts(request: ScoreRequest) -> Texts:
    """Read the requested files. Each file is read only once, so it may be a pipe.

    Raises InputError if the numbers of lines differ.
    """
    found = Texts(
        [read_text(path) for path in request.hypotheses],
        [read_text(path) for path in request.baseline],
        read_text(request.source) if request.source else None,
        read_text(request.pieces) if request.pieces else None,
        list(read_blocks(request.trees)) if request.trees else [],
    )
    check_lengths([*found.system, *found.baseline, *filter(None, [found.source, found.pieces])])
    if not found.system[0].lines:
        raise InputError(f"{request.hypotheses[0]}: the file is empty; give a translation to score")
    return found


def read_text(path: str) -> Text:
    return Text(path, list(read_lines(path)))


def check_lengths(texts: Iterable[Text]) -> None:
    refuse_different_lengths({text.name: len(text.lines) for text in texts})


def read_references(request: ScoreRequest, texts: Texts) -> list[Text]:
    """Read all references, in the order of the hypotheses."""
    hypotheses = texts.system[0]
    if request.references:
        if request.sgm_source:
            raise InputError("--sgm-source applies to --sgm only; leave it out with --references")
        found = [read_text(path) for path in request.references]
        check_lengths([hypotheses, *found])
        return found
    sets = [one for path in request.sgm or () for one in sgm.read_sets(path)]
    order = sgm.read_set(request.sgm_source) if request.sgm_source else sets[0]
    check_count(hypotheses, order.path, len(order.texts), "segments")
    return [Text(str(one), one.in_order_of(order)) for one in sets]


def warn_of_spacing(texts: Texts, references: Sequence[Text]) -> None:
    """Print a warning if a tokenised text seems to be compared with a detokenised one."""
    pairs = product([*texts.system, *texts.baseline], references)
    if found := next(filter(None, starmap(spaced_differently, pairs)), None):
        say(f"warning: {found}")


def warn_of_script(references: Sequence[Text], scoring: Scoring) -> None:
    """Print a warning if a metric splits words at spaces in a language written without spaces."""
    names = scoring.by_spaces
    if names and lacks_spaces(references[0].lines):
        remedy = "give the language with --target-lang, or choose --tokenize char or flores200"
        say(
            f"warning: {references[0].name}: the text has no spaces between words, so these "
            f"scores, which split words at spaces, are wrong: {', '.join(names)}; "
            + ("use the other scores" if not names[0].startswith("BLEU") else remedy)
        )


def check_count(text: Text, other: str, count: int, what: str) -> None:
    """Raise an InputError unless a text has exactly `count` lines."""
    if len(text.lines) != count:
        raise InputError(
            f"{text.name} has {len(text.lines)} lines, but {other} has {count} {what}; "
            "create both from the same sentences"
        )


class Sign(NamedTuple):
    """A statistic that shows whether a text is tokenised, such as spaces before punctuation.

    counted: a function that returns the number of positions with a space, and of all positions.
    difference: texts are spaced differently if their shares of spaces differ by more than this.
    fewest: the minimum number of positions that both texts must contain.
    """

    counted: Callable[[Sequence[str]], tuple[int, int]]
    difference: float
    fewest: int
    name: str


def between_characters(lines: Sequence[str]) -> tuple[int, int]:
    words = [line.split() for line in lines]
    spaces = sum(max(len(found) - 1, 0) for found in words)
    return spaces, sum(max(sum(map(len, found)) - 1, 0) for found in words)


def before_punctuation(lines: Sequence[str]) -> tuple[int, int]:
    found = [match[1] for line in lines for match in PUNCTUATION.finditer(line)]
    return len(found) - found.count(""), len(found)


# Shares of spaces in the tokenised and detokenised PUD treebanks: between characters, 0.59 and 0.00
# (Chinese), 0.22 and 0.19 (English); before punctuation, 0.99 and 0.00, 0.98 and 0.00.
SIGNS = (
    Sign(between_characters, 0.15, 1, "between {} and {} of the characters"),
    Sign(before_punctuation, 0.5, 3, "before {} and {} of the full stops and commas"),
)


def spaced_differently(one: Text, other: Text) -> str | None:
    """Describe the difference if exactly one text seems tokenised; otherwise, return None."""
    for sign in SIGNS:
        counts = sign.counted(one.lines), sign.counted(other.lines)
        if min(places for _, places in counts) < sign.fewest:
            continue
        shares = [spaces / places for spaces, places in counts]
        if abs(shares[0] - shares[1]) > sign.difference:
            where = sign.name.format(*(f"{share:.0%}" for share in shares))
            return (
                f"{one.name} and {other.name} are spaced differently (spaces {where}); "
                "if one of them is tokenised, detokenise it, because the scores are wrong"
            )
    return None
