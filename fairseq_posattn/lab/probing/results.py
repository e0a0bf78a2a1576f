"""Describe the file of posattn probe: the accuracies of probes, with all that they depend on."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import Open, about, read_record
from fairseq_posattn.lab.scoring.json_values import Number, Text, Whole, has, may_have

AGAIN = "make it again with posattn probe"
TRAINED, UNTRAINED, EMBEDDINGS, VECTORS = "trained", "untrained", "embeddings", "vectors"


@dataclass(frozen=True, kw_only=True)
class ProbedTask(Open):
    """A task and its size."""

    train: Whole = has("how many sentences train the classifier")
    dev: Whole = has("how many sentences tune it")
    test: Whole = has("how many sentences test it")
    classes: Whole = has("how many labels there are")
    majority: Number = has("the accuracy on test of the most frequent label of train, in %")
    sha256: Text = has("the checksum of its file")
    source: Text = has("SentEval if the file has its size and classes, else made")


@dataclass(frozen=True, kw_only=True)
class OfModel(Open):
    """Every figure says of which model it is, and what trees the model read."""

    system: Text = has("the name of the system")
    run: Whole = has("which of the trainings this is, from 0")
    model: Text = has("the checksum of the checkpoint; empty for vectors")
    kind: Text = has(
        "trained, untrained (the same model before its training), embeddings (without the "
        "encoder), or vectors (from a file)"
    )
    trees: Text = has(
        "the trees that the model read: gold, parsed, given (by --trees, without more), a "
        "control, or none"
    )


@dataclass(frozen=True, kw_only=True)
class Accuracy(OfModel):
    """The accuracy of one classifier on the vectors of one model."""

    task: Text = has("the task")
    layer: Text = has("the layer: its number, top, or mix")
    seed: Whole = has("the seed of the classifier")
    setting: Text = has("the classifier that was best on dev")
    dev: Number = has("the accuracy on dev, in %")
    test: Number = has("the accuracy on test, in %")
    correct: Text = has("a bit for each test sentence, 1 if right; base64")

    def hits(self, sentences: int) -> NDArray[np.float64]:
        """Return 1 for each test sentence whose label was found, and else 0."""
        where = f"'correct' of {self.system} in {self.task}"
        try:
            packed = np.frombuffer(base64.b64decode(self.correct, validate=True), dtype=np.uint8)
        except ValueError:  # from base64, or from text that is not ASCII
            raise InputError(f"{where} is '{self.correct[:20]}', which is not base64") from None
        if len(packed) * 8 < sentences:
            raise InputError(f"{where} has {len(packed) * 8} bits for {sentences} sentences")
        return np.unpackbits(packed, count=sentences).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class HeadLooks(OfModel):
    """What the words of a treebank look at through one attention head."""

    layer: Whole = has("the layer, counted from 0")
    head: Whole = has("the head, counted from 0")
    parent: Number = has("the share of words whose largest weight lies on the parent, in %")
    child: Number = has("the same for a child")
    previous: Number = has("the same for the word before")
    next: Number = has("the same for the word after")
    dev: dict[str, Number] = has("the same four shares on dev, by which tables choose a head")


@dataclass(frozen=True, kw_only=True)
class PlaceOffset(OfModel):
    """The best fixed offset for parents or children, beside which heads are judged.

    It was chosen on dev; the share is that on test.
    """

    place: Text = has("parent or child")
    offset: Whole = has("the offset, such as -1 for the word before")
    share: Number = has("how often the offset is right, in % of the words")


@dataclass(frozen=True, kw_only=True)
class RelationHead(OfModel):
    """The head that knows a relation best, beside the best fixed offset.

    Head and offset were chosen on dev; the shares are those on test.
    """

    direction: Text = has(
        "parent: words with the relation look at their parent; child: parents look at them"
    )
    relation: Text = has("the relation, without its subtype")
    words: Whole = has("how many words of test have the relation")
    layer: Whole = has("the layer of the head, counted from 0")
    head: Whole = has("the head, counted from 0")
    accuracy: Number = has("how often the head is right, in %")
    of_heads: list[list[Number]] = has("how often each head of each layer is right, in %")
    offset: Whole = has("the offset, such as -1 for the word before")
    offset_accuracy: Number = has("how often the offset is right, in %")


FIGURES = {"distance": ("uuas", "spearman"), "depth": ("root", "spearman")}  # of a word probe
LABELS = ("accuracy", "selectivity")


@dataclass(frozen=True, kw_only=True)
class WordProbe(OfModel):
    """The outcome of a probe of words."""

    layer: Text = has("the layer: its number, or top")
    probe: Text = has("distance, depth, UPOS or relation")
    seed: Whole = has("the seed of the probe")
    figures: dict[str, Number] = has(
        "distance: uuas (edges found, in %) and spearman; depth: root (in %) and spearman; "
        "UPOS and relation: accuracy, that of the control task, and selectivity, in %"
    )

    def __post_init__(self) -> None:
        wanted = FIGURES.get(self.probe, LABELS)
        if missing := [name for name in wanted if name not in self.figures]:
            raise InputError(f"the figures of '{self.probe}' lack '{missing[0]}'")


@dataclass(frozen=True, kw_only=True)
class Treebank(Open):
    """With which sentences words and heads were probed."""

    sha256: list[Text] = has("the checksums of the files for train, dev and test")
    first: Whole = has("so many sentences of each file were read; 0 is all")
    train: Whole = has("how many sentences train the probes")
    dev: Whole = has("how many sentences tune them, and choose heads")
    test: Whole = has("how many sentences test them")
    words: Whole = has("how many words of test have pieces")
    rank: Whole = has("the rank of the structural probes; 0 is the width")


@dataclass(frozen=True, kw_only=True)
class Probes(Open):
    """What posattn probe found."""

    version: Text = has("the version of fairseq_posattn")
    classifier: Text = has("senteval, mlp or linear")
    pooling: Text = has("mean, max, last or end")
    tasks: dict[str, ProbedTask] = has("the tasks by their names")
    accuracies: list[Accuracy] = has("all accuracies of the tasks")
    treebank: Treebank = may_have("the sentences whose words were probed")
    heads: list[HeadLooks] = field(
        default_factory=list, metadata=about("what each attention head looks at")
    )
    offsets: list[PlaceOffset] = field(
        default_factory=list, metadata=about("the best fixed offsets for parents and children")
    )
    relations: list[RelationHead] = field(
        default_factory=list, metadata=about("the head that knows each relation best")
    )
    words: list[WordProbe] = field(
        default_factory=list, metadata=about("the probes of words and of trees")
    )

    def __post_init__(self) -> None:
        for accuracy in self.accuracies:
            if accuracy.task not in self.tasks:
                raise InputError(f"the task {accuracy.task} is not described")
            accuracy.hits(self.tasks[accuracy.task].test)


def row_name(system: str, kind: str, layer: str = "top") -> str:
    """Return how tables call the vectors of a system."""
    parts = [system]
    if kind not in (TRAINED, VECTORS):
        parts.append(kind)
    if layer != "top" and kind != EMBEDDINGS:
        parts.append(f"layer {layer}")
    return ", ".join(parts)


def grouped(records: Iterable[Any], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Yield the records that share the values of these fields, in the order of the first ones."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for record in records:
        found.setdefault(tuple(getattr(record, name) for name in names), []).append(record)
    yield from found.items()


def packed_bits(correct: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def read_probes(path: str) -> Probes:
    return read_record(Probes, path, AGAIN)
