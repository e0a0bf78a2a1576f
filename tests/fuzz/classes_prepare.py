"""prepare.py: raw text, the files between its steps, and OUT.parts of an interrupted parse."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from support.parse_toys import shards_done_here

from .corpora import must_pass, write_text
from .mutations import COLUMNS, JSON, LINES
from .registry import Command, add, calling, content, program

PARTS = "out.conllu.parts"


def parse(folder: Path, **options) -> None:
    from fairseq_posattn.text.parsing import run
    from fairseq_posattn.text.parsing.options import ParseRequest, ParserSettings

    out = str(folder / options.pop("out", "out.conllu"))
    text, trees = (str(folder / name) for name in ("train.de", "train.conllu"))
    settings = ParserSettings(parser="conllu", lang="de", tokenized=True)
    with mock.patch("fairseq_posattn.jobs.running.run", shards_done_here):
        paths = {"text": text, "out": out, "trees": trees}
        run.parse(ParseRequest(**paths, settings=settings, shard_lines=3, **options))


def build_parts(folder: Path) -> None:
    """Parse two of three shards."""
    write_text(folder)
    parse(folder, keep_parts=True)
    (folder / "out.conllu").unlink()
    (folder / PARTS / "done/00002.json").unlink()


def add_parts(name: str, **options) -> None:
    add(
        name,
        build_parts,
        outputs="out.conllu out.conllu.*",
        left=f"{PARTS}/*",
        also_named=PARTS,
        result=content("out.conllu"),
        **options,
    )(calling(parse))


add_parts("parts: plan and markers", damaged=f"{PARTS}/**/*.json", mutations=JSON)
add_parts(
    "parts: input and output",
    damaged=f"{PARTS}/input/*/* {PARTS}/done/*/*.conllu",
    mutations=COLUMNS,
)


# the record beside a finished parse, which has the checksum of the compressed trees


def finish(folder: Path) -> None:
    write_text(folder)
    parse(folder, out="out.conllu.xz")


add(
    "parsed trees, compressed, and their record",
    finish,
    "out.conllu.xz out.conllu.xz.json",
    [*JSON, *COLUMNS],
    left="out.conllu.xz.parts/*",
    result=content("out.conllu.xz"),
    share=0.5,
)(lambda folder: Command(lambda: parse(folder, out="out.conllu.xz")))


OPTIONS = [
    *("--source", "de", "--target", "en", "--parser", "conllu", "--tokenize", "spaces"),
    *("--target-tokenize", "spaces", "--no-normalize", "--symbols", "20"),
]


def preparing(folder: Path) -> Command:
    def main() -> None:
        with mock.patch("fairseq_posattn.jobs.running.run", shards_done_here):
            program("prepare")()

    files = ["--train", folder / "train", "--valid", folder / "valid", "--out", folder / "data"]
    return Command(main, [*OPTIONS, *files])


def build(folder: Path) -> None:
    for prefix in ("train", "valid"):
        write_text(folder, prefix)


def build_work(folder: Path) -> None:
    build(folder)
    must_pass(preparing(folder))


def data(folder: Path) -> dict[str, bytes]:
    files = sorted((folder / "data").glob("*"))
    return {path.name: path.read_bytes() for path in files if path.name != "preprocess.log"}


WORK = {"outputs": "data/* data.work/*", "left": "data.work/*", "share": 0.2}
BETWEEN = "data.work/*.* data.work/segmenter data/*.*"
add(
    *("raw text to prepare", build, "train.de train.en train.conllu", LINES),
    **WORK,
    also_named="train.de train.en train.text.de train.clean train.pieces",
)(preparing)
add("data.work: stamps", build_work, "data.work/steps/*.json", JSON, **WORK, result=data)(preparing)
add(
    *("data.work: files between the steps, and data", build_work, BETWEEN, LINES),
    **WORK,
    result=data,
)(preparing)
