"""Measure what encoding sentences for probes costs, as a ratio to a bare pass of the encoder.

    python recipes/benchmark/probe_speed.py data train.en train.conllu --json probe.json

The sentences are raw, and their trees are at hand. Encoding segments them, lays out trees, makes
batches, pools the vectors of all layers and writes them to the disk. The bare pass runs the same
encoder over the same batches and keeps nothing. The model is untrained. A classifier with one
setting is timed as well.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

import torch
from setting import (
    Model,
    alternating,
    base_parser,
    bootstrap,
    configure,
    interval,
    report,
    synchronize,
)

from fairseq_posattn.evaluation.loaded_model import Loaded
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.probing.classifiers import Setting, Split, fit
from fairseq_posattn.probing.encoding import SentenceEncoder
from fairseq_posattn.probing.vectors import VectorFile, of_sentences
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees.conllu import read_conllu

SPECIFICATION = "sequence + tree_depth / relative + tree_relative"


class Encoding:
    """Encodes sentences, or runs the bare encoder over their batches."""

    def __init__(self, args):
        from fairseq import tasks

        languages = TextPipeline.load(args.data).config
        extra = ["-s", languages.source, "-t", languages.target]
        cfg = configure(args.data, Model.parse(args.specification), args.size, *extra)
        task = tasks.setup_task(cfg.task)
        model = task.build_model(cfg.model).eval()
        if torch.cuda.is_available():
            model = model.cuda()
        self.encoder = SentenceEncoder(Loaded(model, task, cfg), str(args.data))
        self.texts = list(itertools.islice(read_lines(args.text), args.sentences))
        trees = itertools.islice(read_conllu(args.trees), args.sentences)
        self.trees = [self.encoder.normal(tree) for tree in trees]
        lines = self.encoder.segmented(self.texts, self.trees)
        samples = self.encoder.samples(lines, self.trees)
        to_device = self.encoder.loaded.to_device
        self.samples = [to_device(sample)["net_input"] for sample in samples]
        for fields in self.samples:
            fields.pop("prev_output_tokens", None)

    def seconds(self, what: str) -> float:
        """Return how long the encoding or the bare pass takes."""
        synchronize()
        start = time.perf_counter()
        if what == "bare":
            with torch.no_grad():
                for fields in self.samples:
                    self.encoder.encoder(**fields)
        else:
            with tempfile.TemporaryDirectory() as folder:
                encode = of_sentences(self.encoder, self.texts, self.trees, "mean")
                VectorFile(Path(folder), {}).make(len(self.texts), len(self.texts), encode)
        synchronize()
        return time.perf_counter() - start


def classifier_seconds(sentences: int, width: int, classes: int, hidden: int) -> float:
    """Return how long a classifier trains for 20 epochs."""
    dice = torch.Generator().manual_seed(1)
    vectors = torch.randn(sentences, width, generator=dice)
    labels = (vectors @ torch.randn(width, classes, generator=dice)).argmax(dim=1)
    train, dev = Split(vectors, labels), Split(vectors[:10_000], labels[:10_000])
    start = time.perf_counter()
    fit(Setting(hidden, decay=1e-5), train, dev, classes, 1, longest=20)
    return time.perf_counter() - start


def main() -> None:
    """Measure both in turn and print the ratio."""
    parser = base_parser(__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="segment the sentences as these data")
    parser.add_argument("text", help="encode the raw sentences of this file")
    parser.add_argument("trees", help="read their trees from this CoNLL-U file")
    parser.add_argument(
        "--specification", default=SPECIFICATION, help="build the model of this specification"
    )
    parser.add_argument(
        "--classifier", type=int, default=100_000, help="train a classifier on so many vectors"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    encoding = Encoding(args)
    encoding.seconds("bare")
    ratios = []
    for k, order in enumerate(alternating(["bare", "encoding"], args.pairs)):
        taken = {what: encoding.seconds(what) for what in order}
        ratios.append(taken["encoding"] / taken["bare"])
        print(f"round {k + 1}/{args.pairs}: bare {taken['bare']:.2f} s", flush=True)
    median, low, high = bootstrap(ratios)
    rows = [{"sentences": len(encoding.texts), "time_ratio": median, "low": low, "high": high}]
    for hidden in (0, 200):
        taken = classifier_seconds(args.classifier, 512, 10, hidden)
        rows[0][f"classifier_{hidden}_seconds"] = taken
    columns = {
        "sentences": lambda row: f"{row['sentences']:,}",
        "time to the bare pass": lambda row: f"{row['time_ratio']:.3f}",
        "95 % interval": interval,
        "linear classifier, s": lambda row: f"{row['classifier_0_seconds']:.1f}",
        "200 hidden units, s": lambda row: f"{row['classifier_200_seconds']:.1f}",
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
