"""prepare.json with its segmenter, tagging.json with its dictionaries."""

from __future__ import annotations

from pathlib import Path

from .corpora import learn_merges, must_pass, write_text
from .mutations import BYTES, COLUMNS, JSON
from .registry import Command, add, calling, content, program

NEW_TEXT = ["der Hund singt .", "Fußball , „gut“ !", ""]


def build_subword_nmt(folder: Path) -> None:
    from fairseq_posattn.text.pipeline import TextConfig, TextPipeline

    write_text(folder)
    learn_merges(folder)
    (folder / "codes").rename(folder / "segmenter")
    TextPipeline(TextConfig("de", "en", tokenize="moses"), folder).save(folder)


def build_sentencepiece(folder: Path) -> None:
    from fairseq_posattn.text.pipeline import TextConfig, TextPipeline

    write_text(folder)
    options = ["learn", folder / "train.de", "--sentencepiece", folder / "segmenter"]
    must_pass(Command(program("segment"), [*options, "--symbols", 45]))
    choices = TextConfig("de", "en", tokenize="spaces", segmenter="sentencepiece")
    TextPipeline(choices, folder).save(folder)


def segment_new_text(folder: Path) -> None:
    """What fairseq-interactive does with new lines."""
    from fairseq_posattn.text.live.segmented import PipelineCodec
    from fairseq_posattn.text.pipeline import TextPipeline

    text = PipelineCodec(TextPipeline.load(folder))
    pieces = [text.encode(line) for line in NEW_TEXT]
    (folder / "out").write_text("\n".join([*pieces, *map(text.decode, pieces)]), "utf-8")


def add_choices(name: str, build, **options) -> None:
    command = calling(segment_new_text)
    add(name, build, outputs="out", **options)(command)


add_choices("prepare.json", build_subword_nmt, damaged="prepare.json", mutations=JSON)
add_choices(
    "segmenter of prepare.json: merges",
    build_subword_nmt,
    damaged="segmenter",
    mutations=COLUMNS,
    result=content("out"),
    share=0.5,
)
add_choices(
    "segmenter of prepare.json: sentencepiece",
    build_sentencepiece,
    damaged="segmenter",
    mutations=BYTES,
    result=content("out"),
    share=0.5,
)
