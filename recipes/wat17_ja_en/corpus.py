"""Collect ASPEC-JE: train/train-1.txt, train/train-2.txt, dev/dev.txt and test/test.txt.

Columns are separated by |||; the last two are Japanese and English.
"""

from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.atomic import written_together
from fairseq_posattn.files.files import read_lines

SEPARATOR = " ||| "
FILES = {  # text -> its files, and the number of sentences of each file
    "train": (["train/train-1.txt", "train/train-2.txt"], 1000000),
    "dev": (["dev/dev.txt"], 1790),
    "test": (["test/test.txt"], 1812),
}


def collect(collector: Collector) -> None:
    for name, (files, sentences) in FILES.items():
        paths = [collector.folder / file for file in files]
        for path in paths:
            collector.expect_file(path, sentences)
        if collector.shell.does(f"write both columns of {', '.join(files)} to {name}"):
            split(paths, collector.raw / name)


def split(files: Sequence[Path], out: Path) -> None:
    """Write the last two columns of all files to OUT.ja and OUT.en."""
    with written_together([f"{out}.ja", f"{out}.en"]) as (japanese, english):
        for file in files:
            for number, line in enumerate(read_lines(file), start=1):
                columns = line.split(SEPARATOR)
                if len(columns) not in (4, 5):
                    raise InputError(
                        f"{file}:{number}: found {len(columns)} columns separated by |||, expected "
                        "4 or 5; use the files of ASPEC-JE"
                    )
                japanese.write(columns[-2].strip() + "\n")
                english.write(columns[-1].strip() + "\n")
