"""Define the JSON of posattn probe, which contains probing results and their inputs."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import ABSENT, Open, at_least, option, read_record
from fairseq_posattn.scoring.inspection_record import Number, Text, Whole

AGAIN = "make it again with posattn probe"
TRAINED, UNTRAINED, EMBEDDINGS, VECTORS = "trained", "untrained", "embeddings", "vectors"


@dataclass(frozen=True, kw_only=True)
class ProbedTask(Open):
    """The size and origin of a task."""

    train: Whole = option("number of training sentences")
    dev: Whole = option("number of dev sentences")
    test: Whole = option("number of test sentences", limit=at_least(1))
    classes: Whole = option("number of labels")
    majority: Number = option(
        "test accuracy of always predicting the majority label of train, in %"
    )
    sha256: Text = option("checksum of the task's file")
    source: Text = option("SentEval if size and classes equal those of SentEval's file, else made")


@dataclass(frozen=True, kw_only=True)
class OfModel(Open):
    """The fields of each result that identify the model and the trees that it read."""

    system: Text = option("name of the system")
    run: Whole = option("index of the run (training), from 0")
    model: Text = option("checksum of the checkpoint; empty for vectors")
    kind: Text = option(
        "trained, untrained (the same model before training), embeddings (without the encoder), or "
        "vectors (from a file)"
    )
    trees: Text = option(
        "trees that the model read: gold, parsed, given (from --trees, of unknown origin), a "
        "control, or none"
    )


@dataclass(frozen=True, kw_only=True)
class Accuracy(OfModel):
    """The accuracy of one classifier on the vectors of one model."""

    task: Text = option("name of the task")
    layer: Text = option("layer: a number, top, or mix")
    seed: Whole = option("random seed of the classifier")
    setting: Text = option("hyperparameters that were best on dev")
    dev: Number = option("accuracy on dev, in %")
    test: Number = option("accuracy on test, in %")
    correct: Text = option("one bit per test sentence, 1 if the prediction is correct; in base64")

    def hits(self, sentences: int) -> NDArray[np.float64]:
        """Return 1 for each test sentence with a correct prediction, otherwise 0."""
        where = f"'correct' of {self.system} in {self.task}"
        try:
            packed = np.frombuffer(base64.b64decode(self.correct, validate=True), dtype=np.uint8)
        except ValueError:  # invalid base64, or text that is not ASCII
            raise InputError(f"{where} is '{self.correct[:20]}', which is not base64") from None
        if len(packed) * 8 < sentences:
            raise InputError(
                f"{where} contains {len(packed) * 8} bits, but the test set has {sentences} "
                "sentences"
            )
        return np.unpackbits(packed, count=sentences).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class HeadAgreement(OfModel):
    """How often a head attends most to parents, children and neighbours, in % of the words."""

    layer: Whole = option("layer, counted from 0")
    head: Whole = option("head, counted from 0")
    parent: Number = option("share of words whose largest weight is on the parent, in %")
    child: Number = option("the same for a child")
    previous: Number = option("the same for the previous word")
    next: Number = option("the same for the next word")
    dev: dict[str, Number] = option("the same four shares on dev, used to choose heads for tables")


@dataclass(frozen=True, kw_only=True)
class PlaceOffset(OfModel):
    """The best fixed offset to parents or children, which is a baseline for attention heads.

    It was chosen on dev and evaluated on test.
    """

    place: Text = option("parent or child")
    offset: Whole = option("offset, such as -1 for the previous word")
    share: Number = option("accuracy of the offset, in % of the words")


@dataclass(frozen=True, kw_only=True)
class RelationHead(OfModel):
    """The best head for a relation, and the best fixed offset as a baseline.

    Head and offset were chosen on dev and evaluated on test.
    """

    direction: Text = option(
        "parent: from words with the relation to their parents; child: from parents to them"
    )
    relation: Text = option("relation, without its subtype")
    words: Whole = option("number of test words with the relation")
    layer: Whole = option("layer of the head, counted from 0")
    head: Whole = option("head, counted from 0")
    accuracy: Number = option("accuracy of the head, in %")
    of_heads: list[list[Number]] = option("accuracy of each head of each layer, in %")
    offset: Whole = option("offset, such as -1 for the previous word")
    offset_accuracy: Number = option("accuracy of the offset, in %")


FIGURES = {"distance": ("uuas", "spearman"), "depth": ("root", "spearman")}  # of structural probes
LABELS = ("accuracy", "selectivity")


@dataclass(frozen=True, kw_only=True)
class WordProbe(OfModel):
    """The result of probing word vectors."""

    layer: Text = option("layer: a number, or top")
    probe: Text = option("distance, depth, UPOS or relation")
    seed: Whole = option("random seed of the probe")
    figures: dict[str, Number] = option(
        "distance: uuas (in %) and spearman; depth: root (accuracy in %) and spearman; UPOS and "
        "relation: accuracy, control (accuracy on the control task) and selectivity, in %"
    )

    def __post_init__(self) -> None:
        wanted = FIGURES.get(self.probe, LABELS)
        if missing := [name for name in wanted if name not in self.figures]:
            raise InputError(f"the figures of '{self.probe}' lack '{missing[0]}'")


@dataclass(frozen=True, kw_only=True)
class Treebank(Open):
    """The sentences on which words and heads were probed."""

    sha256: list[Text] = option("checksums of the files for train, dev and test")
    first: Whole = option("number of sentences read from each file; 0 means all")
    train: Whole = option("number of training sentences")
    dev: Whole = option("number of dev sentences, on which probes are tuned and heads chosen")
    test: Whole = option("number of test sentences")
    words: Whole = option("number of test words that have pieces")
    rank: Whole = option("rank of the structural probes; 0 means the width of the vectors")


@dataclass(frozen=True, kw_only=True)
class Probes(Open):
    """The contents of a file written by posattn probe."""

    version: Text = option("version of fairseq_posattn")
    classifier: Text = option("senteval, mlp or linear")
    pooling: Text = option("mean, max, last or end")
    tasks: dict[str, ProbedTask] = option("tasks by name")
    accuracies: list[Accuracy] = option("all accuracies of the tasks")
    treebank: Treebank = option("sentences with which words and heads were probed", ABSENT)
    heads: list[HeadAgreement] = option("what each attention head attends to", [])
    offsets: list[PlaceOffset] = option("best fixed offsets to parents and children", [])
    relations: list[RelationHead] = option("best head for each relation", [])
    words: list[WordProbe] = option("results of probes of word vectors", [])

    def __post_init__(self) -> None:
        for accuracy in self.accuracies:
            if accuracy.task not in self.tasks:
                raise InputError(f"'tasks' has no entry for the task {accuracy.task}")
            accuracy.hits(self.tasks[accuracy.task].test)


def row_name(system: str, kind: str, layer: str = "top") -> str:
    """Return the name of a row in tables, such as "base, untrained, layer 2"."""
    parts = [system]
    if kind not in (TRAINED, VECTORS):
        parts.append(kind)
    if layer != "top" and kind != EMBEDDINGS:
        parts.append(f"layer {layer}")
    return ", ".join(parts)


def grouped(records: Iterable[Any], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Group records by the values of these fields, in order of first occurrence."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for record in records:
        found.setdefault(tuple(getattr(record, name) for name in names), []).append(record)
    yield from found.items()


def packed_bits(correct: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def read_probes(path: str) -> Probes:
    return read_record(Probes, path, AGAIN)
