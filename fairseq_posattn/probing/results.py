"""Describe the file of posattn-probe: the accuracies of probes, with all that they depend on."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.json_values import Number, Text, Whole
from fairseq_posattn.io.records import Open, about, read_record

AGAIN = "make it again with posattn-probe"
TRAINED, UNTRAINED, EMBEDDINGS, VECTORS = "trained", "untrained", "embeddings", "vectors"


@dataclass(frozen=True, kw_only=True)
class ProbedTask(Open):
    """This says what a task has."""

    train: Whole = field(metadata=about("how many sentences train the classifier"))
    dev: Whole = field(metadata=about("how many sentences tune it"))
    test: Whole = field(metadata=about("how many sentences test it"))
    classes: Whole = field(metadata=about("how many labels there are"))
    majority: Number = field(
        metadata=about("the accuracy on test of the most frequent label of train, in %")
    )
    source: Text = field(metadata=about("SentEval if the file has its size and classes, else made"))


@dataclass(frozen=True, kw_only=True)
class Accuracy(Open):
    """This is the accuracy of one classifier on the vectors of one model."""

    system: Text = field(metadata=about("the name of the system"))
    run: Whole = field(metadata=about("which of the system's trainings this is, counted from 0"))
    kind: Text = field(
        metadata=about(
            "whose vectors these are: those of the trained model, of the same model untrained, or "
            "the mean of its embeddings without the encoder; or vectors from a file"
        )
    )
    task: Text = field(metadata=about("the task"))
    layer: Text = field(metadata=about("the layer: its number, top, or mix"))
    seed: Whole = field(metadata=about("the seed of the classifier"))
    trees: Text = field(
        metadata=about("the trees that the model read: gold, parsed, a control, or none")
    )
    setting: Text = field(metadata=about("the classifier that was best on dev"))
    dev: Number = field(metadata=about("the accuracy on dev, in %"))
    test: Number = field(metadata=about("the accuracy on test, in %"))
    correct: Text = field(
        metadata=about("a bit for each test sentence, 1 if its label was found; base64")
    )

    def hits(self, sentences: int) -> NDArray[np.float64]:
        """Return 1 for each test sentence whose label was found, and else 0."""
        packed = np.frombuffer(base64.b64decode(self.correct), dtype=np.uint8)
        if len(packed) * 8 < sentences:
            raise InputError(f"there are {len(packed) * 8} bits for {sentences} sentences; {AGAIN}")
        return np.unpackbits(packed, count=sentences).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class Probes(Open):
    """This holds what posattn-probe found."""

    version: Text = field(metadata=about("the version of fairseq_posattn"))
    classifier: Text = field(metadata=about("senteval, mlp or linear"))
    pooling: Text = field(metadata=about("mean, max, last or end"))
    tasks: dict[str, ProbedTask] = field(metadata=about("the tasks by their names"))
    accuracies: list[Accuracy] = field(metadata=about("all accuracies"))

    def __post_init__(self) -> None:
        for accuracy in self.accuracies:
            if accuracy.task not in self.tasks:
                raise InputError(f"the task {accuracy.task} is not described")


def packed_bits(correct: NDArray[np.bool_]) -> str:
    """Return a bit for each sentence, as text."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def read_probes(path: str) -> Probes:
    """Return what a file of posattn-probe holds."""
    return read_record(Probes, path, AGAIN)
