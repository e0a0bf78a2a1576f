"""What README.md, docs/ and recipes/*/README.md show works: code, options, links, names of files.

Blocks that are marked `run in: FOLDER` are run by test_documents_in_full.py.
"""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import fairseq
import pytest

import fairseq_posattn.plugin  # noqa: F401  (--user-dir passes over what is imported already)
from fairseq_posattn.attention import MECHANISMS
from support import command_lines, own_classes
from support.commands import ROOT
from support.documents import (
    BACKTICKS,
    OPTION,
    blocks,
    broken_links,
    documents,
    missing_paths,
    prose,
)

DOCUMENTS = documents()
SHELL = blocks("bash", "sh", "")
PYTHON = [block for block in blocks("python") if not block.mark[0]]
OF_OTHER_PROGRAMS = {"no-build-isolation", "batch", "signal", "all-files", "ci"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(autouse=True)
def in_checkout(monkeypatch):
    """Commands in the documents are given in the checkout."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def tables_of_classes():
    """What the documents register is forgotten afterwards."""
    with own_classes.restored():
        yield


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name)
def test_options_of_commands_exist(block, tables_of_classes):
    """With a folder of the reader's own, the commands know the classes that the document shows."""
    if re.search(r"--user-dir (?!fairseq_posattn)", block.code):
        run_python(block.document)
    syntax = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
    assert syntax.returncode == 0, syntax.stderr
    for words in command_lines.simple_commands(block.code):
        command_lines.check(words)


def test_each_block_of_bash_is_run_or_says_why_not():
    remedy = "write <!-- run in: FOLDER --> or <!-- not run: REASON --> above it"
    assert not [block.name for block in SHELL if block.language and not block.mark[0]], remedy


@pytest.mark.parametrize("document", sorted({block.document for block in PYTHON}), ids=relative)
def test_python_runs(document, monkeypatch, tmp_path, tables_of_classes):
    """The blocks of a document run one after the other, as in one program."""
    monkeypatch.chdir(tmp_path)
    run_python(document)


def run_python(document: Path) -> None:
    names = {"__name__": "__main__"}
    for block in PYTHON:
        if block.document == document:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.code, block.name, "exec"), names)


@pytest.mark.long(ci=True)
def test_the_core_of_the_readme_needs_no_fairseq():
    code = [block.code for block in PYTHON if block.document == ROOT / "README.md"][-1]
    code += "\nimport sys\nassert out.shape == (10, 2, 64) and 'fairseq' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_links_and_paths_lead_somewhere():
    for document in DOCUMENTS:
        assert not list(broken_links(document)), document
        assert not missing_paths(document), document


def words_of_programs() -> set[str]:
    """All names in our programs and in fairseq's, with dashes: options are fields there, too."""
    packages = [Path(fairseq.__file__).parent, ROOT / "fairseq_posattn"]
    files = [file for package in packages for file in package.rglob("*.py")]
    files += ROOT.glob("recipes/**/*.*")
    code = (".py", ".sh", ".sbatch")
    texts = (file.read_text(encoding="utf-8") for file in files if file.suffix in code)
    return {word.replace("_", "-") for text in texts for word in re.findall(r"[a-z][\w-]+", text)}


def test_options_in_the_text_exist():
    """An option in backticks is one of ours or of fairseq's."""
    known = words_of_programs() | OF_OTHER_PROGRAMS
    for document in DOCUMENTS:
        quoted = " ".join(BACKTICKS.findall(prose(document)))
        assert set(OPTION.findall(quoted)) <= known, document


def test_the_readme_is_short_and_names_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    assert "recipes/toy/run.sh" in text and "tests/run.sh" in text


def test_every_document_is_in_an_index():
    indexes = "".join((ROOT / path).read_text() for path in ("docs/README.md", "recipes/README.md"))
    for document in (*ROOT.glob("docs/*.md"), *ROOT.glob("recipes/*/README.md")):
        if document != ROOT / "docs/README.md":
            link = document.relative_to(ROOT / document.relative_to(ROOT).parts[0])
            assert f"]({link})" in indexes, document


def test_mechanisms_and_presets_are_named():
    readme, mechanisms = (
        (ROOT / path).read_text(encoding="utf-8") for path in ("README.md", "docs/mechanisms.md")
    )
    for name in MECHANISMS:
        assert re.search(rf"^\| [^|]*`{name}`[^|]* \|", readme, re.M)
        assert f"\n### `{name}`\n" in mechanisms
    for preset in (ROOT / "fairseq_posattn/fairseq_plugin/config/model").glob("*.yaml"):
        assert f"`posattn_{preset.stem}`" in mechanisms or preset.stem == "transformer", preset
