"""The blocks of the documents that are marked `run in: FOLDER`, run as a reader runs them.

All blocks of a folder run one after the other, those of README.md first. They are copied as they
stand, but for the sizes and names in CHANGES, so that they run in a minute or two.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import warm
from support.commands import PLUGIN, ROOT, run
from support.documents import Block, blocks
from support.parse_toys import make_toy_treebank
from support.raw_corpus import write_raw

pytestmark = pytest.mark.long

CHANGES = {
    "raw_text": {
        "src=en tgt=de": "src=de tgt=en",
        "parser=--download": "parser='--model-dir stanza_resources'",
        "symbols=4000": "symbols=90",
        "--save-dir run |": "--save-dir run --max-update 30 --save-interval-updates 4 |",
        "--parsed --out tasks": "--parsed --out tasks --task BShift --min-sentences 20",
        # The model has not learnt to end a sentence.
        "translation --path run": "translation --max-len-b 5 --path run",
    },
    "tutorial": {
        "--source en --target de": "--source de --target en",
        "-- --download ": "-- --model-dir $PWD/stanza_resources --symbols 90 --workers 2 ",
        "table study --seeds 1-3 ": "table study --seeds 1 --updates 6 --last 2 ",
    },
    "treebank": {
        "--workers 8": "--workers 2",
        "posattn train-parser": f"python {ROOT}/tests/support/train_stanza.py",
    },
    "tagged": {"--patience 3": "--patience 3 --max-epoch 1"},
    "lm": {"--max-epoch 500": "--max-epoch 1", "--lr 30": "--lr 1"},
}


def raw_text(folder: Path, models) -> None:
    """raw/ with train, valid and test in two languages, and models of stanza."""
    write_raw(folder)
    (folder / "stanza_resources").symlink_to(models.contracted)


def tutorial(folder: Path, models) -> None:
    """The same: a text, and a parser."""
    raw_text(folder, models)


def treebank(folder: Path, models) -> None:
    """train, dev and test as CoNLL-U, as the text of these trees, and in a translation.

    The same trees lie in a folder as those of Universal Dependencies do, with new text.
    """
    make_toy_treebank(folder / "toy", 60, 10, 10)
    (folder / "stanza_resources").symlink_to(models.toy)
    for split in ("train", "dev", "test"):
        trees = (folder / f"toy/{split}.src.conllu").read_text()
        (folder / f"{split}.conllu").write_text(trees)
        texts = re.findall("^# text = (.*)$", trees, re.M)
        (folder / f"{split}.en").write_text("".join(f"{text}\n" for text in texts))
        shutil.copy(folder / f"toy/{split}.tgt", folder / f"{split}.de")
    (folder / "UD_Coptic-Scriptorium").mkdir()
    for split in ("train", "dev"):
        name = f"UD_Coptic-Scriptorium/cop_scriptorium-ud-{split}.conllu"
        shutil.copy(folder / f"{split}.conllu", folder / name)
    shutil.copy(folder / "test.en", folder / "new.cop")


def tagged(folder: Path, models) -> None:
    """train, dev and test as CoNLL-U, and new text."""
    treebank(folder, models)
    shutil.copy(folder / "test.en", folder / "new.txt")


def lm(folder: Path, models) -> None:
    """Binarise text as lm_data."""
    treebank(folder, models)
    names = {"--trainpref": "train.en", "--validpref": "dev.en", "--testpref": "test.en"}
    options = [part for option in names.items() for part in option]
    program = [sys.executable, "-m", "fairseq_cli.preprocess", "--only-source"]
    run(*program, *options, "--destdir", "lm_data", cwd=folder)


FOLDERS: dict[str, Callable] = {f.__name__: f for f in (raw_text, tutorial, treebank, tagged, lm)}


def to_run(folder: str) -> list[Block]:
    found = [block for block in blocks("bash", "python") if block.mark == ("run in", folder)]
    return sorted(found, key=lambda block: block.document != ROOT / "README.md")


def install_commands(folder: Path) -> None:
    """Write the program that pip makes of [project.scripts]. Worker processes import it, too."""
    folder.mkdir()
    call = 'if __name__ == "__main__":\n    main()\n'
    text = f"#!{warm.python()}\nfrom fairseq_posattn.cli.main import main\n\n{call}"
    (folder / "posattn").write_text(text)
    (folder / "posattn").chmod(0o755)


def changed(code: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        code = code.replace(old, new)
    return code


@pytest.mark.long(ci=["raw_text"])
@pytest.mark.parametrize("name", FOLDERS)
def test_blocks_run(name, tmp_path, stanza_models):
    folder, found = tmp_path / "folder", to_run(name)
    code = "".join(block.code for block in found)
    assert all(old in code for old in CHANGES[name]), "what CHANGES names is in no block"
    folder.mkdir()
    FOLDERS[name](folder, stanza_models)
    (folder / "fairseq_posattn").symlink_to(PLUGIN)
    install_commands(tmp_path / "bin")
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent)])
    env = {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for block in found:
        program = [sys.executable] if block.language == "python" else ["bash", "-euo", "pipefail"]
        run(*program, "-c", changed(block.code, CHANGES[name]), cwd=folder, env=env)


def test_every_folder_is_known():
    marked = {block.mark[1] for block in blocks("bash", "python") if block.mark[0] == "run in"}
    assert marked == set(FOLDERS) == set(CHANGES)
