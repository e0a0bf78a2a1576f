"""Define the JSON of posattn probe, which contains probing results and their inputs."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import Open, option, read_record
from fairseq_posattn.scoring.inspection_record import Number, Text, Whole, has, may_have

AGAIN = "make it again with posattn probe"
TRAINED, UNTRAINED, EMBEDDINGS, VECTORS = "trained", "untrained", "embeddings", "vectors"


@dataclass(frozen=True, kw_only=True)
class ProbedTask(Open):
    """The size and origin of a task."""

    train: Whole = has("number of training sentences")
    dev: Whole = has("number of dev sentences")
    test: Whole = has("number of test sentences")
    classes: Whole = has("number of labels")
    majority: Number = has("test accuracy of always predicting the majority label of train, in %")
    sha256: Text = has("checksum of the task's file")
    source: Text = has("SentEval if the file has the size and classes of SentEval's, else made")


@dataclass(frozen=True, kw_only=True)
class OfModel(Open):
    """The fields of each result that identify the model and the trees that it read."""

    system: Text = has("name of the system")
    run: Whole = has("index of the run (training), from 0")
    model: Text = has("checksum of the checkpoint; empty for vectors")
    kind: Text = has(
        "trained, untrained (the same model before training), embeddings (without the encoder), or "
        "vectors (from a file)"
    )
    trees: Text = has(
        "trees that the model read: gold, parsed, given (from --trees, of unknown origin), a "
        "control, or none"
    )


@dataclass(frozen=True, kw_only=True)
class Accuracy(OfModel):
    """The accuracy of one classifier on the vectors of one model."""

    task: Text = has("name of the task")
    layer: Text = has("layer: a number, top, or mix")
    seed: Whole = has("random seed of the classifier")
    setting: Text = has("hyperparameters that were best on dev")
    dev: Number = has("accuracy on dev, in %")
    test: Number = has("accuracy on test, in %")
    correct: Text = has("one bit per test sentence, 1 if the prediction is correct; in base64")

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
                f"sentences; {AGAIN}"
            )
        return np.unpackbits(packed, count=sentences).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class HeadAgreement(OfModel):
    """How often a head attends most to parents, children and neighbours, in % of the words."""

    layer: Whole = has("layer, counted from 0")
    head: Whole = has("head, counted from 0")
    parent: Number = has("share of words whose largest weight is on the parent, in %")
    child: Number = has("the same for a child")
    previous: Number = has("the same for the previous word")
    next: Number = has("the same for the next word")
    dev: dict[str, Number] = has("the same four shares on dev, by which tables choose a head")


@dataclass(frozen=True, kw_only=True)
class PlaceOffset(OfModel):
    """The best fixed offset to parents or children, which is a baseline for attention heads.

    It was chosen on dev and evaluated on test.
    """

    place: Text = has("parent or child")
    offset: Whole = has("offset, such as -1 for the previous word")
    share: Number = has("accuracy of the offset, in % of the words")


@dataclass(frozen=True, kw_only=True)
class RelationHead(OfModel):
    """The best head for a relation, and the best fixed offset as a baseline.

    Head and offset were chosen on dev and evaluated on test.
    """

    direction: Text = has(
        "parent: from words with the relation to their parents; child: from parents to them"
    )
    relation: Text = has("relation, without its subtype")
    words: Whole = has("number of test words with the relation")
    layer: Whole = has("layer of the head, counted from 0")
    head: Whole = has("head, counted from 0")
    accuracy: Number = has("accuracy of the head, in %")
    of_heads: list[list[Number]] = has("accuracy of each head of each layer, in %")
    offset: Whole = has("offset, such as -1 for the previous word")
    offset_accuracy: Number = has("accuracy of the offset, in %")


FIGURES = {"distance": ("uuas", "spearman"), "depth": ("root", "spearman")}  # of structural probes
LABELS = ("accuracy", "selectivity")


@dataclass(frozen=True, kw_only=True)
class WordProbe(OfModel):
    """The result of probing word vectors."""

    layer: Text = has("layer: a number, or top")
    probe: Text = has("distance, depth, UPOS or relation")
    seed: Whole = has("random seed of the probe")
    figures: dict[str, Number] = has(
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

    sha256: list[Text] = has("checksums of the files for train, dev and test")
    first: Whole = has("number of sentences read from each file; 0 means all")
    train: Whole = has("number of training sentences")
    dev: Whole = has("number of dev sentences, on which probes are tuned and heads chosen")
    test: Whole = has("number of test sentences")
    words: Whole = has("number of test words that have pieces")
    rank: Whole = has("rank of the structural probes; 0 means the width of the vectors")


@dataclass(frozen=True, kw_only=True)
class Probes(Open):
    """The contents of a file written by posattn probe."""

    version: Text = has("version of fairseq_posattn")
    classifier: Text = has("senteval, mlp or linear")
    pooling: Text = has("mean, max, last or end")
    tasks: dict[str, ProbedTask] = has("tasks by name")
    accuracies: list[Accuracy] = has("all accuracies of the tasks")
    treebank: Treebank = may_have("sentences with which words and heads were probed")
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
