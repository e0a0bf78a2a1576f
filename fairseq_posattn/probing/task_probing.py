"""Train classifiers that predict the labels of probing tasks from sentence vectors."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import sha256
from fairseq_posattn.files.terminal import say
from fairseq_posattn.files.version import __version__
from fairseq_posattn.probing.classifiers import Split, grid, tuned
from fairseq_posattn.probing.encoding import SentenceEncoder
from fairseq_posattn.probing.making.make import RECORD, TREES, read_tasks_record
from fairseq_posattn.probing.probe import GIVEN, NONE, PARSED, Probing, shown_trees
from fairseq_posattn.probing.request import TOP, Named, named
from fairseq_posattn.probing.results import VECTORS, Accuracy, ProbedTask, Probes, packed_bits
from fairseq_posattn.probing.tasks import NAMES, SPLITS, ProbingTask, read_examples, tasks_in
from fairseq_posattn.probing.words import of_sentences, read_text_vectors
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.projection import match
from fairseq_posattn.trees.sentence import Sentence

SENTEVAL = (100_000, 10_000, 10_000)
NO_HIDDEN_LAYER = ("WC",)
ENDS = (".conllu", ".conllu.xz", ".conllu.zst", ".conllu.gz")


class LabelledTask:
    """A task with its sentences and labels.

    Raises InputError if a split is empty, or if dev or test contains labels that do not occur in
    train.

    numbers: the index of the label of each sentence.
    places: the indices of the sentences of each split.
    """

    def __init__(self, task: ProbingTask, path: Path, made: bool):
        self.task, self.path = task, path
        examples = list(read_examples(path))
        self.texts = [example.text for example in examples]
        names = sorted({example.label for example in examples if example.split == "tr"})
        labels = {name: number for number, name in enumerate(names)}
        for number, example in enumerate(examples, start=1):
            if example.label not in labels:
                raise InputError(
                    f"{path}:{number}: the label '{example.label}' does not occur in train; "
                    "recreate the file, or remove the line"
                )
        splits = np.array([example.split for example in examples])
        self.places = {split: np.flatnonzero(splits == split) for split in SPLITS}
        if missing := [split for split, places in self.places.items() if not len(places)]:
            raise InputError(
                f"{path}: {NAMES[missing[0]]} ({missing[0]}) contains no sentences; recreate the "
                "file"
            )
        self.numbers = np.array([labels[example.label] for example in examples])
        train, dev, test = (self.numbers[self.places[split]] for split in SPLITS)
        sizes = zip(SENTEVAL, map(len, (train, dev, test)), strict=True)
        is_theirs = not made and task.is_of_senteval(names)
        is_theirs = is_theirs and all(0.99 * size <= own <= 1.01 * size for size, own in sizes)
        self.described = ProbedTask(
            train=len(train),
            dev=len(dev),
            test=len(test),
            classes=len(names),
            majority=100 * float((test == np.bincount(train).argmax()).mean()),
            sha256=sha256(path),
            source="SentEval" if is_theirs else "made",
        )


class TaskTrees(NamedTuple):
    """The trees of a task's sentences, before control trees (such as chain) replace them.

    kind: "gold", "parsed", "given" or "none".
    checksum: the checksum of the file that contains the trees.
    """

    kind: str
    sentences: list[Sentence] | None
    checksum: str


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
            yield LabelledTask(task, self.folder / f"{task.file}.txt", made)

    @cached_property
    def kind_given(self) -> str:
        """The kind of the trees in --trees: "gold", "parsed", or "given" if unknown."""
        trees, made = self.request.trees, self.folder / RECORD
        kind = self.request.trees_are
        beside = trees and trees.resolve() == (self.folder / TREES).resolve()
        if beside and not kind and made.is_file():
            kind = read_tasks_record(made).trees
        return kind or GIVEN

    def trees(self, task: LabelledTask, encoder: SentenceEncoder) -> TaskTrees:
        """Return the trees of a task, or no trees if neither the model nor its data require them.

        Trees of sentences that a task has changed never count as gold. Raises InputError if trees
        are missing or do not match the sentences.
        """
        if not encoder.needs_parses:
            return TaskTrees(NONE, None, "")
        path, kind = self.given(task.task), self.kind_given
        if path is None:
            name = task.task.name
            remedy = f"parse the sentences of {name} yourself, and give the folder with --trees"
            path = self.parsed_file(encoder, task.texts, task.task.file, remedy)
        is_changed = task.task.changes_words and kind == "gold"
        if is_changed or path.parent == self.request.cache / "parsed":
            kind = PARSED
        sentences = [encoder.normal(sentence) for sentence in read_labelled(path)]
        if len(sentences) != len(task.texts):
            raise InputError(
                f"{path} has {len(sentences):,} trees for {len(task.texts):,} sentences; parse the "
                f"file {task.path.name} again"
            )
        for text, sentence in zip(task.texts, sentences, strict=True):
            if encoder.pipeline is not None:
                text = encoder.pipeline.normal(text, encoder.pipeline.config.source_language)
            match(text, sentence.tokens, sentence.where)  # rejects trees of other sentences
        return TaskTrees(kind, sentences, sha256(path))

    def given(self, task: ProbingTask) -> Path | None:
        """Return the file with the trees of a task, or None if its sentences must be parsed."""
        if self.request.trees is None:
            return None
        paths = [self.request.trees / f"{task.file}{end}" for end in ENDS]
        found = next((path for path in paths if path.is_file()), None)
        if found is None and not task.changes_words:
            raise InputError(
                f"{paths[0]}: there are no trees for {task.name}; parse {task.file}.txt with "
                "posattn parse, or leave out --trees to have the sentences parsed"
            )
        return found

    def of_encoder(
        self, about: dict[str, Any], encoder: SentenceEncoder, task: LabelledTask
    ) -> Iterator[Accuracy]:
        trees, name, count = self.trees(task, encoder), task.task.name, len(task.texts)
        of = {
            "task": name,
            "sentences": task.described.sha256,
            "trees": trees.checksum,
            "pooling": self.request.pooling,
        }
        encode = of_sentences(encoder, task.texts, trees.sentences, self.request.pooling)
        what = f"{name}: {count:,} sentences"
        vectors = self.encoded(what, encoder, about, of, count, count, encode)
        about = {**about, "task": name, "trees": shown_trees(encoder, trees.kind)}
        for of_layer, (chosen,) in self.chosen(about, vectors):
            yield from self.fits(task, chosen, of_layer)

    def of_vectors(self, one: Named, task: LabelledTask) -> Iterator[Accuracy]:
        path = one.path / task.path.name
        if not path.is_file():
            raise InputError(
                f"{path}: the file with vectors for {task.task.name} does not exist; create it, or "
                "choose other tasks with --task"
            )
        about = {"system": one.system, "run": one.run, "model": "", "kind": VECTORS}
        about |= {"task": task.task.name, "layer": TOP, "trees": NONE}
        yield from self.fits(task, read_text_vectors(path, len(task.texts)), about)

    def fits(
        self, task: LabelledTask, vectors: np.ndarray, about: dict[str, Any]
    ) -> Iterator[Accuracy]:
        """Train and evaluate the classifier with each random seed."""
        device = "cuda" if torch.cuda.is_available() and not self.request.cpu else "cpu"
        train, dev, test = (
            Split(
                torch.from_numpy(np.ascontiguousarray(vectors[places])).to(device),
                torch.from_numpy(task.numbers[places]).to(device),
            )
            for places in task.places.values()
        )
        settings = grid(self.request.classifier, task.task.name not in NO_HIDDEN_LAYER)
        for seed in self.request.seeds:
            found = tuned(settings, train, dev, test, task.described.classes, seed)
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
