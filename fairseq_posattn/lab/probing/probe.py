"""Probe trained models: encode the sentences of the tasks, and train classifiers on the vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.progress import say
from fairseq_posattn.io.version import __version__
from fairseq_posattn.lab.probing.check import tasks_in
from fairseq_posattn.lab.probing.classifiers import Split, grid, tuned
from fairseq_posattn.lab.probing.encoding import OF_TRAINING, Codecs, SentenceEncoder
from fairseq_posattn.lab.probing.given_trees import GIVEN, NONE, TaskTrees, TreeSource
from fairseq_posattn.lab.probing.making.record import read_made
from fairseq_posattn.lab.probing.results import (
    EMBEDDINGS,
    TRAINED,
    UNTRAINED,
    VECTORS,
    Accuracy,
    Probes,
    packed_bits,
)
from fairseq_posattn.lab.probing.task_files import SPLITS, LabelledTask, read_examples
from fairseq_posattn.lab.probing.vectors import VectorFile, Vectors, of_sentences, read_text_vectors
from fairseq_posattn.lab.scoring.loaded_model import Loaded, load

MADE, TREES = "tasks.json", "trees"
SENTEVAL = (100_000, 10_000, 10_000)
ALL, MIX, TOP = "all", "mix", "top"
NO_HIDDEN_LAYER = ("WC",)


class Named(NamedTuple):
    """This is a training of a system: a checkpoint, or a folder of vectors."""

    system: str
    run: int
    path: Path


def named(words: Sequence[str]) -> list[Named]:
    """Return the trainings that the words name, as NAME=PATH or PATH."""
    found: list[Named] = []
    bare = [Path(word).absolute() for word in words if "=" not in word or Path(word).exists()]
    folders = Counter(path.parent for path in bare if not path.is_dir())
    for word in words:
        name, _, path = word.partition("=")
        whole = Path(word).absolute()
        if whole in bare:
            is_alone = folders[whole.parent] < 2
            name = whole.name if whole.is_dir() else whole.parent.name if is_alone else whole.stem
            path = word
        if not name or not path:
            raise InputError(f"{word}: write NAME=PATH")
        run = sum(one.system == name for one in found)
        found.append(Named(name, run, Path(path)))
    return found


@dataclass(frozen=True)
class Probing:
    """These are the choices of the user.

    layer: a number, top, all (one probe for each layer), or mix (weights are learnt).
    models, vectors: trainings that are probed on `data`, and folders of vectors made elsewhere.
    trees, trees_are: a folder with the trees of the tasks, and what they are, gold or parsed.
    """

    data: str | None
    tasks: Path
    names: Sequence[str] | None
    models: Sequence[Named]
    vectors: Sequence[Named]
    trees: Path | None
    work: Path
    trees_are: str | None = None
    pooling: str = "mean"
    layer: str = TOP
    classifier: str = "senteval"
    seeds: Sequence[int] = (1111,)
    untrained: bool = True
    workers: int = 1
    user_dir: str | None = None
    task: str | None = None
    codecs: Codecs = OF_TRAINING
    cpu: bool = False

    def run(self) -> Probes:
        """Probe all models on all tasks."""
        tasks = list(self.labelled())
        found: list[Accuracy] = []
        for model in self.models:
            found += self.of_model(model, tasks)
        for one in self.vectors:
            found += self.of_vectors(one, tasks)
        return Probes(
            version=__version__,
            classifier=self.classifier,
            pooling=self.pooling,
            tasks={task.task.name: task.described for task in tasks},
            accuracies=found,
        )

    def labelled(self) -> Iterator[LabelledTask]:
        """Yield the tasks with their sentences."""
        made = (self.tasks / MADE).is_file()
        for task in tasks_in(self.tasks, self.names):
            path = self.tasks / f"{task.file}.txt"
            examples = list(read_examples(path))
            sizes = tuple(sum(e.split == split for e in examples) for split in SPLITS)
            is_theirs = not made and task.is_of_senteval({e.label for e in examples})
            is_theirs = is_theirs and all(
                0.99 * size <= found <= 1.01 * size
                for size, found in zip(SENTEVAL, sizes, strict=True)
            )
            found = LabelledTask(task, path, "SentEval" if is_theirs else "made", examples)
            _ = found.described  # this refuses what lacks a split or has unknown labels
            yield found

    @cached_property
    def tree_source(self) -> TreeSource:
        """Return where trees come from."""
        made, kind = self.tasks / MADE, self.trees_are
        beside = self.trees and self.trees.resolve() == (self.tasks / TREES).resolve()
        if beside and not kind and made.is_file():
            kind = read_made(made).trees
        return TreeSource(self.trees, kind or GIVEN, self.work, self.workers)

    def of_model(self, model: Named, tasks: Sequence[LabelledTask]) -> Iterator[Accuracy]:
        """Yield the accuracies of a checkpoint, of its embeddings, and of its untrained twin."""
        assert self.data is not None
        checksum = sha256(model.path) if model.path.is_file() else ""
        loaded = load(model.path, self.data, self.user_dir, self.task, self.cpu)
        yield from self.of_encoder(
            model, TRAINED, SentenceEncoder(loaded, self.data, self.codecs), checksum, tasks
        )
        if self.untrained:
            twin = SentenceEncoder(untrained(loaded), self.data, self.codecs)
            yield from self.of_encoder(model, UNTRAINED, twin, checksum, tasks)

    def of_encoder(
        self,
        model: Named,
        kind: str,
        encoder: SentenceEncoder,
        checksum: str,
        tasks: Sequence[LabelledTask],
    ) -> Iterator[Accuracy]:
        """Yield the accuracies of one encoder on all tasks."""
        for task in tasks:
            trees = self.tree_source.trees(task.task, task.examples, encoder)
            vectors = self.vectors_of(kind, encoder, checksum, task, trees)
            shown = shown_trees(encoder, trees.kind)
            base = {"system": model.system, "run": model.run, "task": task.task.name}
            base["model"] = checksum
            for layer, chosen in self.layers(vectors).items():
                yield from self.fits(
                    task, chosen, {**base, "kind": kind, "layer": layer, "trees": shown}
                )
            if kind == TRAINED:
                own = {**base, "kind": EMBEDDINGS, "layer": "0", "trees": NONE}
                yield from self.fits(task, vectors[:, -1], own)

    def vectors_of(
        self,
        kind: str,
        encoder: SentenceEncoder,
        checksum: str,
        task: LabelledTask,
        trees: TaskTrees,
    ) -> Vectors:
        """Return the vectors of all sentences of a task by an encoder."""
        assert self.data is not None
        about = {
            "model": checksum,
            "kind": kind,
            "data": data_checksums(self.data),
            "task": task.task.name,
            "sentences": sha256(task.path),
            "trees": trees.checksum if encoder.needs_parses else "",
            "pooling": self.pooling,
            "version": __version__,
            **({"codecs": codecs} if (codecs := encoder.codec_checksums()) else {}),
        }
        file = VectorFile(self.work / "vectors", about)
        if file.complete:
            return file.read()
        check_layer(self.layer, encoder.top)
        say(f"{task.task.name}: {len(task.examples):,} sentences are encoded ({kind})")
        texts = [example.text for example in task.examples]
        encode = of_sentences(encoder, texts, trees.sentences, self.pooling)
        return file.make(len(texts), len(texts), encode)

    def layers(self, vectors: Vectors) -> dict[str, np.ndarray]:
        """Return the vectors of the layers that are probed, by their names."""
        top = vectors.shape[1] - 2  # the last ones are embeddings
        check_layer(self.layer, top)
        if self.layer == TOP or not top:
            return {TOP: vectors[:, top]}
        if self.layer == MIX:
            return {MIX: vectors[:, : top + 1]}
        if self.layer == ALL:
            return {str(number): vectors[:, number] for number in range(top + 1)}
        return {self.layer: vectors[:, int(self.layer)]}

    def of_vectors(self, one: Named, tasks: Sequence[LabelledTask]) -> Iterator[Accuracy]:
        """Yield the accuracies of vectors that were made elsewhere."""
        for task in tasks:
            path = one.path / f"{task.task.file}.txt"
            if not path.is_file():
                raise InputError(
                    f"{path}: there is no such file with vectors for {task.task.name}; write it, "
                    "or choose other tasks with --task"
                )
            vectors = read_text_vectors(path, len(task.examples))[:, 0]
            base = {"system": one.system, "run": one.run, "task": task.task.name}
            more = {"model": "", "kind": VECTORS, "layer": TOP, "trees": NONE}
            yield from self.fits(task, vectors, {**base, **more})

    def fits(
        self, task: LabelledTask, vectors: np.ndarray, about: dict[str, Any]
    ) -> Iterator[Accuracy]:
        """Yield the accuracies of the classifier with each seed."""
        device = "cuda" if torch.cuda.is_available() and not self.cpu else "cpu"
        train, dev, test = (
            Split(
                torch.from_numpy(np.ascontiguousarray(vectors[task.places[split]])).to(device),
                torch.from_numpy(task.numbers[task.places[split]]).to(device),
            )
            for split in SPLITS
        )
        settings = grid(self.classifier, task.task.name not in NO_HIDDEN_LAYER)
        for seed in self.seeds:
            found = tuned(settings, train, dev, test, len(task.labels), seed)
            accuracy = Accuracy(
                **about,
                seed=seed,
                setting=str(found.setting),
                dev=100 * found.dev,
                test=100 * float(found.correct.mean()),
                correct=packed_bits(found.correct),
            )
            say(
                f"{accuracy.task}: {accuracy.system} run {accuracy.run}, {accuracy.kind}, layer "
                f"{accuracy.layer}, seed {seed}: dev {accuracy.dev:.2f}, test {accuracy.test:.2f} "
                f"({accuracy.setting})"
            )
            yield accuracy


def check_layer(layer: str, top: int) -> None:
    """Refuse a layer that an encoder lacks, or does not show; its top layer has this number."""
    if not top and layer not in (TOP, ALL):
        raise InputError(f"--layer {layer}: the encoder shows its top layer only")
    if layer.isdecimal() and int(layer) > top:
        raise InputError(f"--layer {layer}: the encoder has the layers 0 to {top}")


def untrained(loaded: Loaded) -> Loaded:
    """Return the same model as it was before its training, with the same trees.

    The parameters are drawn with the seed of the training.
    """
    torch.manual_seed(loaded.cfg.common.seed)
    model = loaded.task.build_model(loaded.cfg.model)
    model.to(next(loaded.model.parameters()).device).eval()
    model.prepare_for_inference_(loaded.cfg)
    return loaded._replace(model=model)


def shown_trees(encoder: SentenceEncoder, kind: str) -> str:
    """Return what trees the encoder reads: of this kind, or those of a control."""
    if not encoder.reads_trees:
        return NONE
    control = encoder.task.new_text.control
    return f"control {control.tag}" if control else kind


def data_checksums(data: str) -> dict[str, str]:
    """Return the checksums of the files on which the pieces of new text depend."""
    folder = Path(data)
    found = [folder / "prepare.json", *sorted(folder.glob("dict.*.txt"))]
    return {path.name: sha256(path) for path in found if path.is_file()}
