"""Measure the translation speed of a trained model with fairseq, fairseq --int8 and CTranslate2.

    cd recipes/multi30k_en_de/work
    python ../../benchmark/exported_speed.py data --path runs/sequence.demo.seed1.*/averaged.pt \\
        --raw raw/test_2016_flickr --cpu

Ratios are relative to fairseq in float32; BLEU shows the cost of quantisation. All programs use one
thread and the same batch size and beam. fairseq reads binarised data with precomputed trees,
CTranslate2 raw text; models that CTranslate2 does not support are translated by fairseq only.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from sacrebleu import corpus_bleu
from setting import in_turns, interval, report, seconds, times_faster

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.records import at_least, option
from fairseq_posattn.files.requests import asked
from fairseq_posattn.inspection.model import OnData
from fairseq_posattn.integrations.export import export
from fairseq_posattn.integrations.exported import ExportRequest, Translator
from fairseq_posattn.text.live.segmented import PipelineCodec
from fairseq_posattn.text.pipeline import TextPipeline

FLOAT = "fairseq, float32"


@dataclass(frozen=True, kw_only=True)
class Request(OnData):
    """The options of this program."""

    command: ClassVar = "exported_speed.py"
    raw: Path = option("prefix of the raw texts PREFIX.SOURCE and PREFIX.TARGET", required=True)
    rounds: int = option("number of measurements (default: %(default)s)", 5, at_least(1))
    batch: int = option("sentences per batch (default: %(default)s)", 32, at_least(1))
    beam: int = option("beam size (default: %(default)s)", 5, at_least(1))
    json: str | None = option("also write the rows to this file", None)


def with_fairseq(request: Request, int8: bool) -> Callable[[], list[str]]:
    """Return a function that translates the subset with fairseq, in corpus order."""
    loaded = request.load()
    task, codec = loaded.task, PipelineCodec(TextPipeline.load(request.data))
    task.load_dataset(request.gen_subset)
    task.cfg.int8 = int8
    generator = task.build_generator([loaded.model], Namespace(beam=request.beam))
    dataset = task.dataset(request.gen_subset)
    batches = list(
        task.get_batch_iterator(dataset, max_sentences=request.batch).next_epoch_itr(shuffle=False)
    )
    words = task.target_dictionary

    def translate() -> list[str]:
        found: dict[int, str] = {}
        for sample in batches:
            best = task.inference_step(generator, [loaded.model], sample)
            for number, hypotheses in zip(sample["id"].tolist(), best, strict=True):
                found[number] = codec.decode(words.string(hypotheses[0]["tokens"]))
        return [found[number] for number in sorted(found)]

    return translate


def with_ctranslate2(
    request: Request, folder: Path, kind: str, lines: list[str]
) -> Callable[[], list[str]]:
    """Return a function that translates the lines with CTranslate2, in batches sorted by length."""
    about = ExportRequest(
        to="ctranslate2",
        path=request.path,
        out=folder / kind,
        data=request.data,
        quantization=kind,
        gen_subset=request.gen_subset,
        user_dir=request.user_dir,
    )
    export(about)
    translator = Translator(about.out, threads=1)
    order = sorted(range(len(lines)), key=lambda k: len(lines[k]))
    batches = [order[k : k + request.batch] for k in range(0, len(order), request.batch)]

    def translate() -> list[str]:
        found: dict[int, str] = {}
        for batch in batches:
            texts = translator.translate([lines[k] for k in batch], beam=request.beam)
            found |= dict(zip(batch, texts, strict=True))
        return [found[k] for k in range(len(lines))]

    return translate


def main() -> None:
    request = asked(Request, __doc__)
    torch.set_num_threads(1)
    pair = TextPipeline.load(request.data).config
    lines, references = (
        list(read_lines(f"{request.raw}.{language}")) for language in (pair.source, pair.target)
    )
    ways = {FLOAT: with_fairseq(request, False), "fairseq, --int8": with_fairseq(request, True)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for kind in ("float32", "int8"):
                ways[f"CTranslate2, {kind}"] = with_ctranslate2(request, Path(folder), kind, lines)
        except InputError as error:
            print(f"CTranslate2 is left out: {error}")
        bleu = {name: corpus_bleu(way(), [references]).score for name, way in ways.items()}
        taken = in_turns({n: lambda _, w=w: seconds(w) for n, w in ways.items()}, request.rounds)
    rows = []
    for name in ways:
        ratio, low, high = times_faster(taken[FLOAT], taken[name])
        speed = len(lines) / sorted(taken[name])[len(taken[name]) // 2]
        rows.append({"with": name, "speed": speed, "ratio": ratio, "low": low, "high": high,
                     "bleu": bleu[name]})  # fmt: skip
    columns = {
        "with": lambda r: r["with"],
        "sentences a second": lambda r: f"{r['speed']:.1f}",
        "ratio": lambda r: f"{r['ratio']:.2f}",
        "95 % interval": interval,
        "BLEU": lambda r: f"{r['bleu']:.2f}",
    }
    report(rows, columns, request.json)


if __name__ == "__main__":
    command_line.run(main)
