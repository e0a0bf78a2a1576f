"""Probe trained models: encode the sentences of tasks, and train classifiers on their vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.progress import say
from fairseq_posattn.io.version import __version__
from fairseq_posattn.lab.inspection.model import Loaded, load
from fairseq_posattn.lab.probing.check import tasks_in
from fairseq_posattn.lab.probing.classifiers import Split, grid, tuned
from fairseq_posattn.lab.probing.encoding import Codecs, SentenceEncoder
from fairseq_posattn.lab.probing.given_trees import GIVEN, NONE, TreeSource
from fairseq_posattn.lab.probing.making.make import RECORD, TREES, read_made
from fairseq_posattn.lab.probing.request import ALL, MIX, TOP, Named, ProbeRequest, named
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
from fairseq_posattn.lab.probing.vectors import (
    Encode,
    VectorFile,
    Vectors,
    of_sentences,
    read_text_vectors,
)

SENTEVAL = (100_000, 10_000, 10_000)
NO_HIDDEN_LAYER = ("WC",)


@dataclass(frozen=True)
class Probing:
    """The base class for probing sentences and words; it loads models and encodes sentences.

    Each model is probed after training and, for comparison, before training.
    """

    request: ProbeRequest

    def encoders(self, model: Named) -> Iterator[tuple[dict[str, Any], SentenceEncoder]]:
        """Yield the trained and, if requested, the untrained encoder.

        Each encoder is preceded by the values that identify it in the results (see `OfModel`).
        """
        request = self.request
        assert request.data is not None
        checksum = sha256(model.path) if model.path.is_file() else ""
        about = {"system": model.system, "run": model.run, "model": checksum}
        loaded = load(model.path, request.data, request.user_dir, request.fairseq_task, request.cpu)
        codecs = Codecs(request.bpe, request.moses)
        yield {**about, "kind": TRAINED}, SentenceEncoder(loaded, request.data, codecs)
        if not request.no_untrained:
            twin = SentenceEncoder(untrained(loaded), request.data, codecs)
            yield {**about, "kind": UNTRAINED}, twin

    def encoded(
        self,
        what: str,
        encoder: SentenceEncoder,
        about: dict[str, Any],
        of: dict[str, Any],
        sentences: int,
        rows: int,
        encode: Encode,
    ) -> Vectors:
        """Encode sentences, or read their vectors from the cache of a run with the same inputs.

        what: a description of the sentences for log messages.
        of: inputs that the vectors depend on, in addition to the model and its data.
        rows: the number of vectors.
        """
        assert self.request.data is not None
        folder = Path(self.request.data)
        files = [folder / "prepare.json", *sorted(folder.glob("dict.*.txt"))]  # for segmentation
        described = {
            **{name: about[name] for name in ("model", "kind")},
            "data": {path.name: sha256(path) for path in files if path.is_file()},
            **of,
            "version": __version__,
            **({"codecs": codecs} if (codecs := encoder.codec_checksums()) else {}),
        }
        file = VectorFile(self.request.kept / "vectors", described)
        if file.complete:
            return file.read()
        check_layer(self.request.layer, encoder.top)
        say(f"encoding {what} ({about['kind']})")
        return file.make(sentences, rows, encode)

    def layers(self, vectors: Vectors) -> dict[str, np.ndarray]:
        """Return the vectors of the requested layers, by layer name."""
        top, layer = vectors.shape[1] - 2, self.request.layer  # the last "layer": embeddings
        check_layer(layer, top)
        if layer == TOP or not top:
            return {TOP: vectors[:, top]}
        if layer == MIX:
            return {MIX: vectors[:, : top + 1]}
        if layer == ALL:
            return {str(number): vectors[:, number] for number in range(top + 1)}
        return {layer: vectors[:, int(layer)]}

    def chosen(
        self, about: dict[str, Any], *parts: Vectors
    ) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
        """Yield the result fields and the vectors of all parts for each requested layer.

        For a trained model, also yield them for the embeddings.
        """
        layers = [self.layers(part) for part in parts]
        for layer in layers[0]:
            yield {**about, "layer": layer}, [part[layer] for part in layers]
        if about["kind"] == TRAINED:
            own = {"kind": EMBEDDINGS, "layer": "0", "trees": NONE}
            yield {**about, **own}, [part[:, -1] for part in parts]


class TaskProbing(Probing):
    """Trains classifiers that predict the labels of tasks from sentence vectors."""

    def run(self) -> Probes:
        models, others = named(self.request.path), named(self.request.vectors)
        tasks = list(self.labelled())
        found: list[Accuracy] = []
        for model in models:
            for about, encoder in self.encoders(model):
                for task in tasks:
                    found += self.of_encoder(about, encoder, task)
        for one in others:
            for task in tasks:
                found += self.of_vectors(one, task)
        return Probes(
            version=__version__,
            classifier=self.request.classifier,
            pooling=self.request.pooling,
            tasks={task.task.name: task.described for task in tasks},
            accuracies=found,
        )

    @property
    def folder(self) -> Path:
        assert self.request.tasks is not None
        return self.request.tasks

    def labelled(self) -> Iterator[LabelledTask]:
        made = (self.folder / RECORD).is_file()
        for task in tasks_in(self.folder, self.request.task):
            path = self.folder / f"{task.file}.txt"
            examples = list(read_examples(path))
            sizes = tuple(sum(e.split == split for e in examples) for split in SPLITS)
            is_theirs = not made and task.is_of_senteval({e.label for e in examples})
            is_theirs = is_theirs and all(
                0.99 * size <= found <= 1.01 * size
                for size, found in zip(SENTEVAL, sizes, strict=True)
            )
            found = LabelledTask(task, path, "SentEval" if is_theirs else "made", examples)
            _ = found.described  # raises an InputError for missing splits and unknown labels
            yield found

    @cached_property
    def tree_source(self) -> TreeSource:
        request, made = self.request, self.folder / RECORD
        kind, trees = request.trees_are, request.trees
        beside = trees and trees.resolve() == (self.folder / TREES).resolve()
        if beside and not kind and made.is_file():
            kind = read_made(made).trees
        return TreeSource(request, kind or GIVEN)

    def of_encoder(
        self, about: dict[str, Any], encoder: SentenceEncoder, task: LabelledTask
    ) -> Iterator[Accuracy]:
        trees = self.tree_source.trees(task.task, task.examples, encoder)
        texts, name = [example.text for example in task.examples], task.task.name
        of = {
            "task": name,
            "sentences": sha256(task.path),
            "trees": trees.checksum if encoder.needs_parses else "",
            "pooling": self.request.pooling,
        }
        encode = of_sentences(encoder, texts, trees.sentences, self.request.pooling)
        what, count = f"{name}: {len(texts):,} sentences", len(texts)
        vectors = self.encoded(what, encoder, about, of, count, count, encode)
        about = {**about, "task": name, "trees": shown_trees(encoder, trees.kind)}
        for of_layer, (chosen,) in self.chosen(about, vectors):
            yield from self.fits(task, chosen, of_layer)

    def of_vectors(self, one: Named, task: LabelledTask) -> Iterator[Accuracy]:
        path = one.path / f"{task.task.file}.txt"
        if not path.is_file():
            raise InputError(
                f"{path}: the file with vectors for {task.task.name} does not exist; create it, or "
                "choose other tasks with --task"
            )
        vectors = read_text_vectors(path, len(task.examples))[:, 0]
        about = {"system": one.system, "run": one.run, "model": "", "kind": VECTORS}
        about |= {"task": task.task.name, "layer": TOP, "trees": NONE}
        yield from self.fits(task, vectors, about)

    def fits(
        self, task: LabelledTask, vectors: np.ndarray, about: dict[str, Any]
    ) -> Iterator[Accuracy]:
        """Train and evaluate the classifier with each random seed."""
        device = "cuda" if torch.cuda.is_available() and not self.request.cpu else "cpu"
        train, dev, test = (
            Split(
                torch.from_numpy(np.ascontiguousarray(vectors[task.places[split]])).to(device),
                torch.from_numpy(task.numbers[task.places[split]]).to(device),
            )
            for split in SPLITS
        )
        settings = grid(self.request.classifier, task.task.name not in NO_HIDDEN_LAYER)
        for seed in self.request.seeds:
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
    """Raise an InputError if an encoder does not provide this layer.

    top: the number of the encoder's top layer.
    """
    if not top and layer not in (TOP, ALL):
        raise InputError(f"--layer {layer}: this encoder provides only its top layer; use top")
    if layer.isdecimal() and int(layer) > top:
        raise InputError(f"--layer {layer} does not exist; choose one of the layers 0 to {top}")


def untrained(loaded: Loaded) -> Loaded:
    """Return the same model before training, initialised with the training run's random seed."""
    torch.manual_seed(loaded.cfg.common.seed)
    model = loaded.task.build_model(loaded.cfg.model)
    model.to(next(loaded.model.parameters()).device).eval()
    model.prepare_for_inference_(loaded.cfg)
    return loaded._replace(model=model)


def shown_trees(encoder: SentenceEncoder, kind: str) -> str:
    """Return the kind of trees that the encoder reads: none, control trees, or `kind`."""
    if not encoder.reads_trees:
        return NONE
    control = encoder.task.new_text.control
    return f"control {control.tag}" if control else kind
