"""Read from the logs of fairseq-generate how fast a translation was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.scoring.score_record import Decoding

COUNT, FIGURE = r"([0-9][0-9,]{0,19})", r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
TRANSLATED = re.compile(
    rf"Translated {COUNT} sentences \({COUNT} tokens\) in {FIGURE}s "
    rf"\({FIGURE} sentences/s, {FIGURE} tokens/s\)"
)


TRANSLATION = re.compile(r"H-([0-9]{1,15})\t")


class Run(NamedTuple):
    """Holds the figures of the line that ends a run of fairseq-generate."""

    sentences: int
    pieces: int
    seconds: float
    sentences_per_second: float
    pieces_per_second: float


def speed(paths: Sequence[str]) -> Decoding:
    """Return the speed of a run of fairseq-generate; several logs are shards of one run."""
    refuse_repeated(paths)
    runs = [translated(path) for path in paths]
    whole = runs[0] if len(runs) == 1 else side_by_side(runs, paths[0])
    return Decoding(**{name: value for name, value in whole._asdict().items() if name != "pieces"})


def refuse_repeated(paths: Sequence[str]) -> None:
    """Refuse logs that translate the same sentences, which are no shards of one run."""
    first: dict[str, str] = {}
    for path in paths if len(paths) > 1 else ():
        for line in read_lines(path):
            if found := TRANSLATION.match(line):
                other = first.setdefault(found[1], path)
                if other != path:
                    raise InputError(
                        f"{path}: the sentence {found[1]} is in {other}, too; name the logs of one "
                        "run, whose speed is shown"
                    )


def side_by_side(runs: Sequence[Run], path: str) -> Run:
    """Return the figures of shards as one run: sentences add up, and the slowest shard gives the
    time."""
    sentences, pieces = sum(run.sentences for run in runs), sum(run.pieces for run in runs)
    seconds = max(run.seconds for run in runs)
    if not seconds:
        raise InputError(
            f"{path}: the run took 0.0 seconds; translate more sentences to measure a speed"
        )
    return Run(sentences, pieces, seconds, sentences / seconds, pieces / seconds)


def translated(path: str) -> Run:
    """Return the figures of the only run in a log."""
    found = [match for line in read_lines(path) if (match := TRANSLATED.search(line))]
    if len(found) != 1:
        raise InputError(
            f"{path}: the log has {len(found)} lines 'Translated ... sentences'; "
            "name the whole log of one run of fairseq-generate"
        )
    sentences, pieces, *rest = found[0].groups()
    return Run(*(int(count.replace(",", "")) for count in (sentences, pieces)), *map(float, rest))
