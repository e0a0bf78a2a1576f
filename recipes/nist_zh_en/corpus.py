"""Collect NIST Chinese-English: train.zh and train.en, and the test sets MT02 to MT06 as SGML.

The source of a test set is in mt02.src.sgm; its references are in mt02.ref.sgm (one file with four
sets) or in several files mt02.ref*.sgm.
"""

import shutil
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.files.requests import command_of
from fairseq_posattn.scoring.metrics.sgm import SgmRequest


def collect(collector: Collector) -> None:
    """Copy the training texts, and extract both sides of each test set."""
    collector.take_pair("train")
    for name in collector.content.corpus.tests:
        collect_test(collector, name)


def collect_test(collector: Collector, name: str) -> None:
    """Copy a test set; its first reference is binarised, and scores use all references."""
    source = collector.folder / f"{name}.src.sgm"
    references = sorted(collector.folder.glob(f"{name}.ref*.sgm"))
    if collector.shell.does(f"copy {source} and {name}.ref*.sgm to {collector.raw}"):
        if not references or not source.exists():
            raise InputError(
                f"{collector.folder} lacks {name}.src.sgm or {name}.ref*.sgm; copy the LDC's "
                "files there"
            )
        for old in collector.raw.glob(f"{name}.ref*.sgm"):  # left by an earlier run
            old.unlink()
        for path in (source, *references):
            shutil.copy(path, collector.raw)
    first = references[0] if references else collector.folder / f"{name}.ref.sgm"
    chinese, english = collector.raw / f"{name}.zh", collector.raw / f"{name}.en"
    for request in (
        SgmRequest(file=str(source), out=str(chinese)),
        SgmRequest(file=str(first), first=True, like=str(source), out=str(english)),
    ):
        collector.shell.run(command_of(request))
    collector.expect(f"{name}.zh")


def references(raw: Path, test: str) -> dict:
    """Return the options that pass all references of a test set to posattn score."""
    return {
        "sgm": sorted(raw.glob(f"{test}.ref*.sgm")) or [raw / f"{test}.ref.sgm"],
        "sgm-source": raw / f"{test}.src.sgm",
    }
