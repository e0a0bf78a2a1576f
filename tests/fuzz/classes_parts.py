"""OUT.parts, the folder of an interrupted parse, which the same command goes on with."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from support.parse_toys import shards_done_here

from .corpora import write_text
from .mutations import COLUMNS, JSON
from .registry import add
from .runner import Command, InputClass

PARTS = "out.conllu.parts"


def parse(folder: Path, **options) -> None:
    from fairseq_posattn.text.parser_settings import ParserSettings
    from fairseq_posattn.text.parsing import run

    out = str(folder / options.pop("out", "out.conllu"))
    text, trees = (str(folder / name) for name in ("train.de", "train.conllu"))
    settings = ParserSettings(parser="conllu", lang="de", tokenized=True)
    with mock.patch("fairseq_posattn.work.running.run", shards_done_here):
        run.parse(text, out, settings, None, shard_lines=3, trees=trees, **options)


def build(folder: Path) -> None:
    """Two of three shards are done."""
    write_text(folder)
    parse(folder, keep_parts=True)
    (folder / "out.conllu").unlink()
    (folder / PARTS / "done/00002.json").unlink()


def add_parts(name: str, **options) -> None:
    add(
        InputClass(
            name,
            build,
            lambda folder: Command(lambda: parse(folder)),
            outputs=["out.conllu", "out.conllu.*"],
            left=[f"{PARTS}/*"],
            also_named=[PARTS],
            result=lambda folder: (folder / "out.conllu").read_bytes(),
            **options,
        )
    )


add_parts("parts: plan and markers", damaged=[f"{PARTS}/**/*.json"], mutations=JSON)
add_parts(
    "parts: input and output",
    damaged=[f"{PARTS}/input/*/*", f"{PARTS}/done/*/*.conllu"],
    mutations=COLUMNS,
)


# the record beside a finished parse, which has the checksum of the compressed trees


def finish(folder: Path) -> None:
    write_text(folder)
    parse(folder, out="out.conllu.xz")


add(
    InputClass(
        "parsed trees, compressed, and their record",
        finish,
        lambda folder: Command(lambda: parse(folder, out="out.conllu.xz")),
        damaged=["out.conllu.xz", "out.conllu.xz.json"],
        mutations=[*JSON, *COLUMNS],
        left=["out.conllu.xz.parts/*"],
        result=lambda folder: (folder / "out.conllu.xz").read_bytes(),
        share=0.5,
    )
)
