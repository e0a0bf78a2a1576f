"""Collect Multi30k, and concatenate pairs of captions of the test set."""

from pathlib import Path

from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import read_lines

TEST, JOINED = "test_2016_flickr", "joined"


def collect(collector: Collector) -> None:
    """Write both sides of each text, and of the concatenated captions."""
    for name in ("train", "val", TEST):
        collector.take_pair(name)
    for language in collector.languages:
        out = collector.raw / f"{JOINED}.{language}"
        if collector.shell.does(f"join each two lines of {TEST}.{language} to {out}"):
            join(collector.raw / f"{TEST}.{language}", out)
        collector.expect(out.name)


def join(captions: Path, out: Path) -> None:
    """Join lines 1 and 2, lines 3 and 4, and so on."""
    lines = iter(read_lines(captions))
    with written_whole(out) as file:
        for first, second in zip(lines, lines, strict=True):
            file.write(f"{first} {second}\n")
