"""Read the texts that posattn-score compares, and check that they fit together.

They must have the same number of sentences, and be spaced in the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import product, starmap
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines, refuse_different_lengths
from fairseq_posattn.io.progress import say
from fairseq_posattn.lab.scoring.metrics import sgm
from fairseq_posattn.lab.scoring.metrics.scores import Scoring
from fairseq_posattn.lab.scoring.metrics.spacing import Text, spaced_differently
from fairseq_posattn.text.languages import lacks_spaces


class Texts(NamedTuple):
    """These are the plain texts that belong together.

    system, baseline: the translations by each run of the system and of the baseline.
    source, pieces: the words and the pieces of the source, or None.
    """

    system: list[Text]
    baseline: list[Text]
    source: Text | None
    pieces: Text | None

    @property
    def translations(self) -> list[Text]:
        """Return the translations by all runs of both systems."""
        return [*self.system, *self.baseline]


def read_texts(args: argparse.Namespace) -> Texts:
    """Return the plain texts that the options name.

    Each file is read once, so that it may be a pipe.
    """
    found = Texts(
        [read_text(path) for path in args.hypotheses],
        [read_text(path) for path in args.baseline],
        read_text(args.source) if args.source else None,
        read_text(args.pieces) if args.pieces else None,
    )
    check_lengths(
        text for text in (*found.translations, found.source, found.pieces) if text is not None
    )
    if not found.system[0].lines:
        raise InputError(f"{args.hypotheses[0]}: the file is empty; name a translation to score")
    return found


def read_text(path: str) -> Text:
    """Return the lines of a file as a text."""
    return Text(path, list(read_lines(path)))


def check_lengths(texts: Iterable[Text]) -> None:
    """Refuse texts that have different numbers of lines."""
    refuse_different_lengths({text.name: len(text.lines) for text in texts})


def read_references(args: argparse.Namespace, texts: Texts) -> list[Text]:
    """Return all references, in the order of the hypotheses."""
    hypotheses = texts.system[0]
    if args.references:
        if args.sgm_source:
            raise InputError(
                "--sgm-source orders the segments of --sgm; leave it out with plain text"
            )
        found = [read_text(path) for path in args.references]
        check_lengths([hypotheses, *found])
        return found
    sets = [one for path in args.sgm for one in sgm.read_sets(path)]
    order = sgm.read_set(args.sgm_source) if args.sgm_source else sets[0]
    check_count(hypotheses, order.path, len(order.texts), "segments")
    return list(map(Text, map(str, sets), sgm.aligned(sets, order)))


def warn_of_spacing(texts: Texts, references: Sequence[Text]) -> None:
    """Print a warning if a tokenised text is compared with a plain one."""
    pairs = product(texts.translations, references)
    if found := next(filter(None, starmap(spaced_differently, pairs)), None):
        say(f"warning: {found}")


def warn_of_script(references: Sequence[Text], scoring: Scoring) -> None:
    """Print a warning if scores look for spaces between words where there are none."""
    names = scoring.by_spaces
    if names and lacks_spaces(references[0].lines):
        remedy = "name the language with --target-lang, or choose --tokenize char or flores200"
        say(
            f"warning: {references[0].name}: the text has no spaces between words, but these "
            f"scores compare what stands between spaces, so they are wrong: {', '.join(names)}; "
            + ("look at the other scores" if not names[0].startswith("BLEU") else remedy)
        )


def check_count(text: Text, other: str, count: int, what: str) -> None:
    """Refuse a text that has another number of lines than something else has sentences."""
    if len(text.lines) != count:
        raise InputError(
            f"{text.name} has {len(text.lines)} lines, but {other} has {count} {what}; "
            "make them from the same sentences"
        )
