"""posattn prepare on a real Slurm and a real Ray, with all steps in shards of lines."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import PATIENCE, ROOT
from support.raw_corpus import KINDS, contents, prepare

pytestmark = pytest.mark.long
STEPS = ("normalize", "segment", "project", "filter", "dictionaries", "binarize")


@pytest.fixture
def whole(corpus, tmp_path) -> Path:
    prepare(*options(corpus), "--out", tmp_path / "whole")
    return tmp_path / "whole"


def options(corpus) -> list:
    return corpus.options(*KINDS["spaces"], "--parser", "none", "--control", "chain")


def command(corpus, out: Path, *more) -> list[str]:
    program = [sys.executable, ROOT / "preprocess/prepare.py", *options(corpus), "--out", out]
    return [*map(str, program), "--shard-lines", "4", "--memory-gb", "1", *more]


def test_slurm(slurm, corpus, whole, tmp_path):
    out = tmp_path / "data"
    printed = slurm.run(*command(corpus, out, "--executor", "slurm"))
    assert contents(out) == contents(whole)
    for step in STEPS:
        assert f"{step}." in printed or f"{step} ..." in printed
    assert printed.count("does 2 of 2 shards; their logs are in") == 8
    assert not slurm.run("squeue", "-h")


def test_ray(ray, corpus, whole, tmp_path):
    out = tmp_path / "data"
    subprocess.run(
        ray.command(*command(corpus, out, "--executor", "ray")),
        env=ray.environment,
        check=True,
        timeout=PATIENCE,
    )
    assert contents(out) == contents(whole)
