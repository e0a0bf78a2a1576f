"""Collect WMT17 Chinese-English from the official archives, or from extracted texts.

The folder contains train.zh and train.en, or all archives, and optionally the test sets.
"""

from fairseq_posattn.experiments.corpora import Collector

NEWS = "training/news-commentary-v12.zh-en"
CWMT = ("casia2015", "casict2011", "casict2015", "datum2015", "datum2017", "neu2017")
ENDS = {"zh": "_c[hn].txt", "en": "_en.txt"}  # suffixes of the files of CWMT
SENTENCES = 25134743


def collect(collector: Collector) -> None:
    """Write the training texts and the test sets."""
    if collector.has("train.zh"):
        collector.take_pair("train")
    else:
        join_parts(collector)
    collector.take_pair("newsdev2017")
    collector.take_pair("newstest2017")


def join_parts(collector: Collector) -> None:
    """Write the training texts unless they exist, joining the parts of both in the same order."""
    if not (collector.raw / "train.en").exists():
        collector.unpack("training-parallel-nc-v12.tgz", [f"{NEWS}.zh", f"{NEWS}.en"])
        collector.unpack("UNv1.0.en-zh.tar.gz")
        for name in CWMT:
            collector.unpack(f"{name}.zip", into="cwmt")
        for language, end in ENDS.items():
            united = sorted(collector.raw.glob(f"*/UNv1.0.en-zh.{language}"))
            cwmt = sorted(collector.raw.glob(f"cwmt/*/*{end}"))
            news = collector.raw / f"{NEWS}.{language}"
            collector.join(f"train.{language}", [news, *united, *cwmt])
    for language in ENDS:
        collector.expect(f"train.{language}", [SENTENCES, 1])
