"""The command `posattn`: help, versions, completion, and a quick start."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_posattn.cli import main
from support.commands import ROOT

CLI = ROOT / "fairseq_posattn/cli"


def posattn(*words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "fairseq_posattn", *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_each_module_is_a_subcommand_that_the_help_lists():
    modules = {path.stem.replace("_", "-") for path in CLI.glob("[a-z]*.py")}
    own = set(main.subcommands()) - set(main.FAIRSEQ)
    assert own == modules - {"main", "fairseq-programs"}
    shown = posattn("--help")
    assert shown.returncode == 0
    for name, about in main.subcommands().items():
        assert f"  {name} " in shown.stdout and about in shown.stdout
    without = posattn()
    assert (without.stdout, without.returncode) == (shown.stdout, 2)


@pytest.mark.parametrize(
    ("word", "remedy"), [("trian", "did you mean train?"), ("--beam", "posattn --help lists them")]
)
def test_an_unknown_subcommand_is_named(word, remedy):
    ended = posattn(word)
    assert ended.returncode == 2 and not ended.stdout
    assert ended.stderr == f"posattn: error: unknown subcommand '{word}'; {remedy}\n"


def test_versions_are_those_to_name_in_a_bug_report():
    shown = posattn("--version").stdout
    for name in ("fairseq_posattn", "Python", "torch", "fairseq", "sacrebleu", "Linux"):
        assert f"{name} " in shown or f"{name}-" in shown


WRONG_OPTIONS = """
import sys
from fairseq_posattn.cli import main

for name in sys.argv[1:]:
    sys.argv = ["posattn", name, "--no-such-option"]
    try:
        main.main()
    except SystemExit as end:
        assert end.code == 2, (name, end.code)
    assert not {"torch", "fairseq", "stanza"} & set(sys.modules), name
"""


def test_options_are_checked_before_torch_is_imported():
    """What fairseq's own parser reads is left out."""
    names = set(main.subcommands()) - {*main.FAIRSEQ, "binarize"}
    command = [sys.executable, "-c", WRONG_OPTIONS, *sorted(names)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]


COMPLETE = """
PATH=$1:$PATH
eval "$(posattn --completion)"
COMP_WORDS=(posattn $2) COMP_CWORD=$3
_posattn posattn "${COMP_WORDS[$3]}"
echo "${COMPREPLY[*]}"
"""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("train-", "train-parser"), ("average --la", "--last"), ("score file", "")],
)
def test_bash_completes_subcommands_and_options(typed, completed):
    words = [str(Path(sys.executable).parent), typed, str(len(typed.split()))]
    shown = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *words], capture_output=True, text=True, check=True
    )
    assert (shown.stdout.split(), shown.stderr) == (completed.split(), "")
