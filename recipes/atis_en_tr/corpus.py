"""Extract the texts from both treebanks, and label the word order of each test sentence.

Names, numbers and codes have the same spelling in both languages, except for Turkish suffixes after
an apostrophe. The label compares the order of those that occur exactly once on each side: `same`,
`crossed`, or `few` if there are fewer than two.
"""

from __future__ import annotations

import re

from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import read_lines

ORDER = "order"


def collect(collector: Collector) -> None:
    """Write both sides of each text, and the labels of the test set."""
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
    """Return the order of shared words: `same`, `crossed`, or `few` if there are fewer than two."""
    ours, theirs = words_in(source), words_in(target)
    there = [theirs.index(word) for word in ours if word in theirs]
    if len(there) < 2:
        return "few"
    return "same" if there == sorted(there) else "crossed"


def words_in(line: str) -> list[str]:
    """Return the words of at least two characters that occur once in a line, without suffixes."""
    words = [re.split("['’]", word)[0].lower() for word in line.split()]
    return [word for word in words if len(word) > 1 and words.count(word) == 1]
