"""Evaluate a run of a translation recipe: average its checkpoints and translate the test sets."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.commands import python
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.preparing import check_texts
from fairseq_posattn.experiments.recipe import arguments
from fairseq_posattn.experiments.runs import Run, fingerprints
from fairseq_posattn.experiments.workspace import Workspace
from fairseq_posattn.fairseq_plugin.requests import AverageRequest
from fairseq_posattn.files.files import count_lines
from fairseq_posattn.files.requests import command_of
from fairseq_posattn.inspection.model import ExampleRequest, HeadRequest
from fairseq_posattn.scoring.generate_log import TranslationsRequest


def evaluate(setup: Workspace, run: Run, examples: int, machine: Machine, share: Share) -> None:
    """Average checkpoints and translate the test sets; steps that are complete are skipped.

    examples: number of sentences whose trees and attention are stored for the report.
    """
    setup.shell.act(check_dictionaries, setup, run)
    setup.shell.act(check_texts, setup, run.record.test_trees)
    with setup.shell.locked(run.folder / "evaluation"):
        Evaluation(setup, run, machine, share).run_all(examples)
    setup.progress.finish(run.name)


def check_dictionaries(setup: Workspace, run: Run) -> None:
    """Raise an InputError if the dictionaries in the data have changed since a run was trained.

    The label dictionaries may differ if the run is tested with different trees from those used for
    training.
    """
    content, record = setup.content, run.record
    names = [f"dict.{language}.txt" for language in (content.source, content.target)]
    names = names if record.tested else ["dict.*.txt"]
    for name, state in fingerprints(setup.shards_of(record.test_trees), names).items():
        if record.files.get(name) != state:
            raise InputError(
                f"{run.folder}: {name} in the data folder has changed since this run was trained; "
                "train again, or restore the data"
            )


class Evaluation:
    """The evaluation of one run on the given GPUs or processes."""

    def __init__(self, setup: Workspace, run: Run, machine: Machine, share: Share):
        self.setup, self.run, self.machine, self.share = setup, run, machine, share
        self.shell, self.content = setup.shell, setup.content
        self.averaged = run.folder / "averaged.pt"
        self.data = setup.shards_of(run.record.test_trees)[0]
        # label dictionaries of the training data, needed only for tests with other trees
        trained = setup.shards_of(run.record.trees)[0]
        self.labels = trained if run.record.tested else None
        self.decoding: dict[str, Any] = {
            "beam": self.content.evaluation.beam,
            "lenpen": self.content.evaluation.lenpen,
        }

    def run_all(self, examples: int) -> None:
        """Average the checkpoints, translate the test sets, and collect data for the report."""
        self.average()
        for test, subset in self.setup.subsets().items():
            self.translate(test, subset, self.data, "")
            if self.setup.settings.with_parsing:
                self.translate_parsing(test, subset)
            if examples:
                self.describe(test, subset, examples)

    def do(self, *step) -> None:
        self.setup.do_once(self.run.name, self.run.folder, *step)

    def start(self, request: Any) -> None:
        """Run a subcommand in a process of its own; its output is appended to evaluate.log."""
        log = self.run.folder / "evaluate.log"
        self.shell.run(command_of(request), log, self.share.environment())

    def average(self) -> None:
        size = self.setup.recipe.size(self.run.record.size)  # raises InputError if it was removed
        last = self.setup.settings.last or self.content.sizes[size].averaged
        folder = self.run.folder
        request = AverageRequest(run=str(folder), last=last, out=str(self.averaged))
        inputs, action = [folder / "finished"], partial(self.start, request)
        self.do("average", last, inputs, [self.averaged], action)

    def file(self, test: str, end: str) -> Path:
        return self.run.folder / f"{test}.{end}"

    def translate(self, test: str, subset: str, data: Path, kind: str) -> None:
        """Translate a test set in shards, one per GPU or process.

        kind: "" to read the trees from the data folder, "parsed." to parse the sentences during
            translation.
        """
        outputs = [self.file(test, f"{kind}{end}") for end in ("hyp", "src", "shard0")]
        inputs = [self.averaged, data / "prepare.json"]
        inputs += sorted(data.glob(f"{subset}.*")) + sorted(data.glob("dict.*.txt"))
        shards = self.at_most_all(self.machine.each(), test)  # fairseq fails on an empty shard
        logs = [self.file(test, f"{kind}shard{k}") for k in range(shards)]
        action = partial(self.generate, test, subset, data, logs)
        self.do(f"translate.{kind}{test}", [*self.decoding.values()], inputs, outputs, action)

    def sentences(self, test: str) -> int:
        return count_lines(self.setup.raw / f"{test}.{self.content.source}")

    def at_most_all(self, wanted: int, test: str) -> int:
        """Return `wanted`, but at most the number of sentences in the test set."""
        return self.shell.act(lambda: min(wanted, self.sentences(test)), instead=wanted)

    def generate(self, test: str, subset: str, data: Path, logs: Sequence[Path]) -> None:
        """Run fairseq-generate on all shards in parallel, and merge the outputs."""
        shards, start = len(logs), str(logs[0]).removesuffix("shard0")
        self.shell.act(remove_logs, start)
        options = {
            **self.setup.task,
            **({"labels-of": self.labels} if self.labels else {}),
            "gen-subset": subset,
            "path": self.averaged,
            **self.decoding,
            "max-tokens": 8000,
            "cpu": self.machine.cpu,
            "distributed-world-size": shards,
        }
        size = self.shell.act(lambda: max(1, self.sentences(test) // shards), instead=False)
        options["batch-size"] = size
        commands = [
            python("fairseq_cli.generate", data, *arguments({**options, "distributed-rank": k}))
            for k in range(shards)
        ]
        self.shell.run_at_once(commands, logs, self.environments(shards))
        self.start(
            TranslationsRequest(
                data=str(data),
                logs=[*map(str, logs)],
                gen_subset=subset,
                sources=f"{start}src",
                out=f"{start}hyp",
            )
        )

    def environments(self, shards: int) -> list[dict[str, str]]:
        """Return the environment variables of each shard, including those that select the GPU."""
        base = self.share.environment()
        if self.machine.cpu:
            return [base] * shards
        devices = self.share.gpus or tuple(self.machine.devices())
        return [{**base, "CUDA_VISIBLE_DEVICES": device} for device in devices[:shards]]

    def translate_parsing(self, test: str, subset: str) -> None:
        """Translate the test set with live parsing, to measure the speed of both together."""
        name = ".".join(self.data.relative_to(self.setup.work).parts)
        without = self.setup.work / f"{name}.without_trees"
        self.shell.act(link_without_trees, self.data, without)
        self.translate(test, subset, without, "parsed.")

    def describe(self, test: str, subset: str, examples: int) -> None:
        """Store trees and attention weights of the first sentences, and statistics of all heads.

        The statistics compare the attention weights with the original trees, even if the model
        reads control trees or no trees.
        """
        of_test = self.run.record.test_trees
        path = self.setup.pieces(of_test) / f"{subset}.conllu.xz"
        trees = path if self.shell.is_there(path) else None
        count = self.at_most_all(examples, test)
        shown = trees if of_test == "own" or self.setup.are_parsed(of_test) else None
        model: dict[str, Any] = {
            "data": str(self.data),
            "path": self.averaged,
            "gen_subset": subset,
            "cpu": self.machine.cpu,
            "labels_of": self.labels,
        }
        first = ExampleRequest(
            **model,
            **self.decoding,
            sentences=list(range(count)),
            trees=str(shown) if shown else None,
            out=self.file(test, "examples.json"),
        )
        self.inspect(f"examples.{test}", first, [count, *self.decoding.values()])
        heads = HeadRequest(
            **model, trees=str(trees) if trees else None, out=self.file(test, "heads.json")
        )
        self.inspect(f"heads.{test}", heads, [])

    def inspect(self, step: str, request: ExampleRequest | HeadRequest, choices: list) -> None:
        """Store trees and attention weights, or statistics of heads, for the report."""
        inputs = [self.averaged, self.data / "prepare.json"]
        inputs += sorted(self.data.glob(f"{request.gen_subset}.*"))
        inputs += [Path(request.trees)] if request.trees else []
        self.do(step, choices, inputs, [request.out], partial(self.start, request))


def remove_logs(start: str) -> None:
    """Remove the shard logs of an earlier translation, which may have had more shards."""
    for path in Path(start).parent.glob(f"{Path(start).name}shard*"):
        path.unlink()


def link_without_trees(data: Path, out: Path) -> None:
    """Fill a folder with symbolic links to all files in the data folder except the trees.

    Several processes may fill the same folder at the same time.
    """
    out.mkdir(parents=True, exist_ok=True)
    for path in data.iterdir():
        if ".tree." in path.name:
            continue
        link = out / path.name
        if link.is_symlink() and os.readlink(link) != str(path):
            link.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(path)
