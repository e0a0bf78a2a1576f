"""A wheel built from the checkout, installed into an environment of its own, runs every command."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from fairseq_posattn.cli.main import FAIRSEQ, subcommands
from support.commands import ROOT

pytestmark = pytest.mark.long


def run(*command, cwd: Path) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory) -> Path:
    """The commands of an environment that has this package as a wheel; the other packages are
    those of the tests, which are found through a .pth file."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    names = ["setup.py", "pyproject.toml", "README.md", "LICENSE"]
    shutil.copytree(ROOT / "fairseq_posattn", source / "fairseq_posattn")
    for name in names:
        shutil.copy(ROOT / name, source)
    build = ["wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder, source]
    run(sys.executable, "-m", "pip", *build, cwd=folder)
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment/bin/python"
    [wheel] = folder.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=folder)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
    # The name begins with `z`, so that this package is found before the one of the tests.
    Path(site.strip(), "z.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


def test_every_subcommand_prints_its_help(bin_folder, tmp_path):
    for name in subcommands():
        printed = run(bin_folder / "posattn", name, "--help", cwd=tmp_path)
        assert f"usage: posattn {name}" in printed or name in FAIRSEQ
        assert "preprocess/" not in printed


def test_from_text_to_a_report(bin_folder, tmp_path):
    """The commands of the installed package work together, far from any checkout."""

    def posattn(command: str, *arguments) -> str:
        return run(bin_folder / "posattn", command, *arguments, cwd=tmp_path)

    run(sys.executable, ROOT / "recipes/toy/treebank.py", tmp_path / "raw", cwd=tmp_path)
    names = {"train": 60, "dev": 10}
    for split, lines in names.items():
        text = (tmp_path / f"raw/{split}.src.conllu").read_text().split("\n\n")[:lines]
        (tmp_path / f"{split}.conllu").write_text("\n\n".join(text) + "\n\n")
        posattn("trees", f"{split}.conllu", "--control", "shuffled", "--out", "shuffled.conllu")
        posattn("extract", f"{split}.conllu", "--out", split)
        target = (tmp_path / f"raw/{split}.tgt").read_text().splitlines()[:lines]
        (tmp_path / f"{split}.target").write_text("".join(line + "\n" for line in target))
    codes = ("--codes", "codes")
    posattn("segment", "learn", "train.words", "train.target", *codes, "--symbols", 50)
    for split in names:
        posattn("segment", "apply", f"{split}.words", *codes, "--out", f"{split}.src")
        posattn("segment", "apply", f"{split}.target", *codes, "--out", f"{split}.tgt")
        parts = ("--words", f"{split}.words", "--parents", f"{split}.parents")
        posattn("project", *parts, "--pieces", f"{split}.src")
    languages = ("--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary")
    prefixes = ("--trainpref", "train", "--validpref", "dev", "--testpref", "dev")
    posattn("binarize", *languages, *prefixes, "--destdir", "data")
    task = ("data", "--task", "structured_translation", "--cpu", "--num-workers", 0)
    sizes = ("--encoder-layers", 1, "--decoder-layers", 1, "--encoder-embed-dim", 16)
    training = ("--arch", "posattn_structural", *sizes, "--decoder-embed-dim", 16)
    training += ("--encoder-attention-heads", 2, "--decoder-attention-heads", 2)
    training += ("--optimizer", "adam", "--max-tokens", 500, "--max-update", 4)
    posattn("train", *task, *training, "--save-interval-updates", 2, "--save-dir", "run")
    posattn("average", "run", "--last", 1, "--out", "run/averaged.pt")
    log = posattn("generate", *task, "--path", "run/averaged.pt", "--max-len-b", 5)
    (tmp_path / "generate.log").write_text(log)
    posattn("translations", "data", "generate.log", "--out", "translations")
    posattn("examples", "data", "--path", "run/averaged.pt", "--sentences", 0, 1)
    posattn("heads", "data", "--path", "run/averaged.pt")
    scoring = ("--references", "dev.target", "--target-lang", "en", "--json", "score.json")
    posattn("score", "translations", *scoring, "--name", "toy", "--test", "dev")
    posattn("report", "score.json", "--out", "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()
