"""Make the texts from both treebanks, and say of each test sentence whether its order crosses.

Names, numbers and codes are written alike in both languages, but for the endings that Turkish puts
behind an apostrophe. Those that stand once on each side show the order: `same`, `crossed`, or
`few` where there are fewer than two.
"""

from __future__ import annotations

import re

from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.experiments.corpora import Collector

ORDER = "order"


def collect(collector: Collector) -> None:
    """Write both sides of each text, and the orders of the test set."""
    for name in collector.content.corpus.names:
        collector.take_pair(name)
    [test] = collector.content.corpus.tests
    out = collector.raw / f"{test}.{ORDER}"
    if collector.shell.does(f"write {out} from both sides of {test}"):
        sides = [read_lines(collector.raw / f"{test}.{one}") for one in collector.languages]
        with written_whole(out) as file:
            for source, target in zip(*sides, strict=True):
                file.write(f"{order(source, target)}\n")


def order(source: str, target: str) -> str:
    """Return whether the words that both sides have stand in the same order."""
    ours, theirs = words_in(source), words_in(target)
    there = [theirs.index(word) for word in ours if word in theirs]
    if len(there) < 2:
        return "few"
    return "same" if there == sorted(there) else "crossed"


def words_in(line: str) -> list[str]:
    """Return the words of two letters or more that a line has once, without endings."""
    words = [re.split("['’]", word)[0].lower() for word in line.split()]
    return [word for word in words if len(word) > 1 and words.count(word) == 1]
