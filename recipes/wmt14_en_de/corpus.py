"""Collect WMT14 English-German from the official archives, or from extracted texts.

The folder contains train.en and train.de, or the three archives, and optionally the test sets.
"""

from fairseq_posattn.experiments.corpora import Collector

PARTS = {  # archive -> prefix of its texts, and their number of sentences
    "training-parallel-europarl-v7.tgz": ("training/europarl-v7.de-en", 1920209),
    "training-parallel-commoncrawl.tgz": ("commoncrawl.de-en", 2399123),
    "training-parallel-nc-v9.tgz": ("training/news-commentary-v9.de-en", 201288),
}


def collect(collector: Collector) -> None:
    """Write the training texts and the test sets."""
    if collector.has("train.en"):
        collector.take_pair("train")
    else:
        for language in collector.languages:
            join_parts(collector, language)
    collector.take_pair("newstest2013")
    collector.take_pair("newstest2014")


def join_parts(collector: Collector, language: str) -> None:
    """Write the training text of one language unless it exists, and check its length."""
    if not (collector.raw / f"train.{language}").exists():
        for archive, (name, sentences) in PARTS.items():
            collector.unpack(archive, [f"{name}.{language}"])
            collector.expect(f"{name}.{language}", [sentences])
        parts = [collector.raw / f"{name}.{language}" for name, _ in PARTS.values()]
        collector.join(f"train.{language}", parts)
    collector.expect(f"train.{language}", [sum(count for _, count in PARTS.values())])
