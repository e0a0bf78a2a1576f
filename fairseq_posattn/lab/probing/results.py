"""Describe the file of posattn-probe: the accuracies of probes, with all that they depend on."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import ABSENT, Open, about, read_record
from fairseq_posattn.lab.scoring.json_values import Number, Text, Whole

AGAIN = "make it again with posattn-probe"
TRAINED, UNTRAINED, EMBEDDINGS, VECTORS = "trained", "untrained", "embeddings", "vectors"


@dataclass(frozen=True, kw_only=True)
class ProbedTask(Open):
    """A task and its size."""

    train: Whole = field(metadata=about("how many sentences train the classifier"))
    dev: Whole = field(metadata=about("how many sentences tune it"))
    test: Whole = field(metadata=about("how many sentences test it"))
    classes: Whole = field(metadata=about("how many labels there are"))
    majority: Number = field(
        metadata=about("the accuracy on test of the most frequent label of train, in %")
    )
    sha256: Text = field(metadata=about("the checksum of its file"))
    source: Text = field(metadata=about("SentEval if the file has its size and classes, else made"))


@dataclass(frozen=True, kw_only=True)
class OfModel(Open):
    """Every figure says of which model it is, and what trees the model read."""

    system: Text = field(metadata=about("the name of the system"))
    run: Whole = field(metadata=about("which of the trainings this is, from 0"))
    model: Text = field(metadata=about("the checksum of the checkpoint; empty for vectors"))
    kind: Text = field(
        metadata=about(
            "trained, untrained (the same model before its training), embeddings (without the "
            "encoder), or vectors (from a file)"
        )
    )
    trees: Text = field(
        metadata=about(
            "the trees that the model read: gold, parsed, given (by --trees, without more), a "
            "control, or none"
        )
    )


@dataclass(frozen=True, kw_only=True)
class Accuracy(OfModel):
    """The accuracy of one classifier on the vectors of one model."""

    task: Text = field(metadata=about("the task"))
    layer: Text = field(metadata=about("the layer: its number, top, or mix"))
    seed: Whole = field(metadata=about("the seed of the classifier"))
    setting: Text = field(metadata=about("the classifier that was best on dev"))
    dev: Number = field(metadata=about("the accuracy on dev, in %"))
    test: Number = field(metadata=about("the accuracy on test, in %"))
    correct: Text = field(metadata=about("a bit for each test sentence, 1 if right; base64"))

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

    layer: Whole = field(metadata=about("the layer, counted from 0"))
    head: Whole = field(metadata=about("the head, counted from 0"))
    parent: Number = field(
        metadata=about("the share of words whose largest weight lies on the parent, in %")
    )
    child: Number = field(metadata=about("the same for a child"))
    previous: Number = field(metadata=about("the same for the word before"))
    next: Number = field(metadata=about("the same for the word after"))
    dev: dict[str, Number] = field(
        metadata=about("the same four shares on dev, by which tables choose a head")
    )


@dataclass(frozen=True, kw_only=True)
class PlaceOffset(OfModel):
    """The best fixed offset for parents or children, beside which heads are judged.

    It was chosen on dev; the share is that on test.
    """

    place: Text = field(metadata=about("parent or child"))
    offset: Whole = field(metadata=about("the offset, such as -1 for the word before"))
    share: Number = field(metadata=about("how often the offset is right, in % of the words"))


@dataclass(frozen=True, kw_only=True)
class RelationHead(OfModel):
    """The head that knows a relation best, beside the best fixed offset.

    Head and offset were chosen on dev; the shares are those on test.
    """

    direction: Text = field(
        metadata=about(
            "parent: words with the relation look at their parent; child: parents look at them"
        )
    )
    relation: Text = field(metadata=about("the relation, without its subtype"))
    words: Whole = field(metadata=about("how many words of test have the relation"))
    layer: Whole = field(metadata=about("the layer of the head, counted from 0"))
    head: Whole = field(metadata=about("the head, counted from 0"))
    accuracy: Number = field(metadata=about("how often the head is right, in %"))
    of_heads: list[list[Number]] = field(
        metadata=about("how often each head of each layer is right, in %")
    )
    offset: Whole = field(metadata=about("the offset, such as -1 for the word before"))
    offset_accuracy: Number = field(metadata=about("how often the offset is right, in %"))


FIGURES = {"distance": ("uuas", "spearman"), "depth": ("root", "spearman")}  # of a word probe
LABELS = ("accuracy", "selectivity")


@dataclass(frozen=True, kw_only=True)
class WordProbe(OfModel):
    """The outcome of a probe of words."""

    layer: Text = field(metadata=about("the layer: its number, or top"))
    probe: Text = field(metadata=about("distance, depth, UPOS or relation"))
    seed: Whole = field(metadata=about("the seed of the probe"))
    figures: dict[str, Number] = field(
        metadata=about(
            "distance: uuas (edges found, in %) and spearman; depth: root (in %) and spearman; "
            "UPOS and relation: accuracy, that of the control task, and selectivity, in %"
        )
    )

    def __post_init__(self) -> None:
        wanted = FIGURES.get(self.probe, LABELS)
        if missing := [name for name in wanted if name not in self.figures]:
            raise InputError(f"the figures of '{self.probe}' lack '{missing[0]}'")


@dataclass(frozen=True, kw_only=True)
class Treebank(Open):
    """With which sentences words and heads were probed."""

    sha256: list[Text] = field(metadata=about("the checksums of the files for train, dev and test"))
    first: Whole = field(metadata=about("so many sentences of each file were read; 0 is all"))
    train: Whole = field(metadata=about("how many sentences train the probes"))
    dev: Whole = field(metadata=about("how many sentences tune them, and choose heads"))
    test: Whole = field(metadata=about("how many sentences test them"))
    words: Whole = field(metadata=about("how many words of test have pieces"))
    rank: Whole = field(metadata=about("the rank of the structural probes; 0 is the width"))


@dataclass(frozen=True, kw_only=True)
class Probes(Open):
    """What posattn-probe found."""

    version: Text = field(metadata=about("the version of fairseq_posattn"))
    classifier: Text = field(metadata=about("senteval, mlp or linear"))
    pooling: Text = field(metadata=about("mean, max, last or end"))
    tasks: dict[str, ProbedTask] = field(metadata=about("the tasks by their names"))
    accuracies: list[Accuracy] = field(metadata=about("all accuracies of the tasks"))
    treebank: Treebank = field(
        default=ABSENT, metadata=about("the sentences whose words were probed")
    )
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


def packed_bits(correct: NDArray[np.bool_]) -> str:
    """Return a bit for each sentence, as text."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def read_probes(path: str) -> Probes:
    """Return what a file of posattn-probe holds."""
    return read_record(Probes, path, AGAIN)
