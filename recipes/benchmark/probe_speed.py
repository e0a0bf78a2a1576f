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
from pathlib import Path

import torch
from setting import (
    Model,
    base_parser,
    configure,
    in_turns,
    interval,
    report,
    seconds,
    times_faster,
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

    def bare(self) -> None:
        """Run the bare encoder over all batches."""
        with torch.no_grad():
            for fields in self.samples:
                self.encoder.encoder(**fields)

    def encode(self) -> None:
        """Encode all sentences and write their vectors."""
        with tempfile.TemporaryDirectory() as folder:
            encode = of_sentences(self.encoder, self.texts, self.trees, "mean")
            VectorFile(Path(folder), {}).make(len(self.texts), len(self.texts), encode)


def classifier_seconds(sentences: int, width: int, classes: int, hidden: int) -> float:
    """Return how long a classifier trains for 20 epochs."""
    dice = torch.Generator().manual_seed(1)
    vectors = torch.randn(sentences, width, generator=dice)
    labels = (vectors @ torch.randn(width, classes, generator=dice)).argmax(dim=1)
    train, dev = Split(vectors, labels), Split(vectors[:10_000], labels[:10_000])
    return seconds(lambda: fit(Setting(hidden, decay=1e-5), train, dev, classes, 1, longest=20))


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
    encoding.bare()
    passes = {"bare": encoding.bare, "encoding": encoding.encode}
    taken = in_turns({s: lambda _, p=one: seconds(p) for s, one in passes.items()}, args.pairs)
    median, low, high = times_faster(taken["encoding"], taken["bare"])
    rows = [{"sentences": len(encoding.texts), "time_ratio": median, "low": low, "high": high}]
    for hidden in (0, 200):
        spent = classifier_seconds(args.classifier, 512, 10, hidden)
        rows[0][f"classifier_{hidden}_seconds"] = spent
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
