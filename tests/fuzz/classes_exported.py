"""Folders of posattn export, and the numbers that posattn translate and posattn export take."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest import mock

from support.files import write

from .classes_choices import NEW_TEXT, build_subword_nmt
from .mutations import BYTES, JSON, NUMBERS
from .registry import Command, add, content, made_once, program

FILES = ("model.bin", "config.json", "shared_vocabulary.json", "exported.json", "prepare.json")
OTHERS = ("vmap.txt", "source_vocabulary.json", "target_vocabulary.txt", "shared_vocabulary.txt")
OPTIONS = {"translate": "--beam --lenpen --alternatives --batch --threads", "export": "--sentences"}


@made_once
def exported(folder: Path) -> None:
    """Export a model of random weights, which knows the pieces of NEW_TEXT."""
    from fairseq_posattn.integrations import export
    from fairseq_posattn.integrations.export import Proof
    from fairseq_posattn.integrations.exported import ExportRequest
    from fairseq_posattn.text.live.segmented import PipelineCodec
    from fairseq_posattn.text.pipeline import TextPipeline
    from support.random_model import build

    data, out = folder / "data", folder / "exported"
    data.mkdir()
    build_subword_nmt(data)
    codec = PipelineCodec(TextPipeline.load(data))
    loaded = build(symbols=sorted({p for line in NEW_TEXT for p in codec.encode(line).split()}))
    loaded.task.cfg = SimpleNamespace(data=str(data))
    with (
        mock.patch.object(export, "load", lambda *_, **__: loaded),
        mock.patch.object(export, "prove", lambda *_: Proof(0.0, 0, 0)),
    ):
        export.export(ExportRequest(to="ctranslate2", path=Path("model.pt"), out=out))


def build_folder(folder: Path) -> None:
    shutil.copytree(exported() / "exported", folder / "exported")
    write(folder / "text", NEW_TEXT)
    write(folder / "change", ["nothing"])
    write(folder / "translate", ["--beam 2 --lenpen 1.0 --alternatives 1 --batch 2 --threads 1"])
    write(folder / "export", ["--sentences 5"])


def translate(folder: Path) -> Command:
    """Change the folder as `change` says, and translate with the options of `translate`."""
    what, _, name = (folder / "change").read_text().strip().partition(" ")
    if what == "remove":
        (folder / "exported" / name).unlink()
    elif what == "add":
        (folder / "exported" / name).write_text("x\n")
    words = (folder / "translate").read_text("utf-8").split()

    def main() -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            program("translate")()
        (folder / "out").write_text(printed.getvalue(), "utf-8")

    return Command(main, [folder / "exported", *words], folder / "text")


def export(folder: Path) -> Command:
    """Read the options of posattn export, which would need a checkpoint for more."""
    from fairseq_posattn.files.requests import asked
    from fairseq_posattn.integrations.exported import ExportRequest

    words = (folder / "export").read_text("utf-8").split()
    words = ["ctranslate2", "model.pt", "--out", "out", *words]
    return Command(lambda: print(asked(ExportRequest, None, words)))


def swap_entries(data: bytes, random: Random) -> bytes:
    """Swap two entries of a vocabulary."""
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        entries = json.loads(data)
        first, second = random.sample(range(len(entries)), 2)
        entries[first], entries[second] = entries[second], entries[first]
        return json.dumps(entries, indent=2).encode()
    return data


def another_file(data: bytes, random: Random) -> bytes:
    """Remove a file, or add one that CTranslate2 reads where it finds it."""
    removed = [f"remove {name}" for name in (*FILES, "segmenter")]
    return random.choice([*removed, *(f"add {name}" for name in OTHERS)]).encode()


def another_number(data: bytes, random: Random) -> bytes:
    """Give an option another number, written in another way."""
    words = data.decode().split()
    k = random.randrange(0, len(words), 2)
    large = ["999999", "1e999", "-1e30", "1e-320", "-10", "1001", str(2**31), str(2**64), "3"]
    number = random.choice([*NUMBERS, *large]).strip() or "0x10"
    words[k : k + 2] = [words[k].partition("=")[0], number]
    if number.startswith("-"):
        words[k : k + 2] = [f"{words[k]}={number}", f"{words[k]}={number}"]
    return " ".join(words).encode()


def add_folders(name: str, damaged: str, mutations, **more) -> None:
    options = {"also_named": "exported.json", "share": 0.5, "result": content("out"), **more}
    outputs = "out exported/*"
    add(f"exported folders: {name}", build_folder, damaged, mutations, outputs, **options)(
        translate
    )


add_folders("model", "exported/model.bin", BYTES)
add_folders("vocabulary", "exported/shared_vocabulary.json", [*BYTES, *[swap_entries] * 9])
add_folders("documents", "exported/*.json", JSON)
add_folders("text pipeline", "exported/segmenter exported/prepare.json", BYTES)
add_folders("files", "change", [another_file], also_named=" ".join((*FILES, "segmenter", "folder")))
add_folders("numbers", "translate", [another_number], also_named=OPTIONS["translate"], result=None)
add(
    *("exported folders: numbers of the export", build_folder, "export", [another_number]),
    also_named=OPTIONS["export"],
    share=0.2,
)(export)
