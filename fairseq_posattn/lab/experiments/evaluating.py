"""Evaluate a run of a translation recipe: average its checkpoints and translate the test sets."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import count_lines
from fairseq_posattn.lab.experiments.commands import python
from fairseq_posattn.lab.experiments.machine import Machine, Share
from fairseq_posattn.lab.experiments.preparing import check_texts
from fairseq_posattn.lab.experiments.recipe import arguments
from fairseq_posattn.lab.experiments.runs import Run, fingerprints
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace


def evaluate(place: Workplace, run: Run, plan: Plan, machine: Machine, share: Share) -> None:
    place.shell.act(check_dictionaries, place, run)
    place.shell.act(check_texts, place, run.record.test_trees)
    with place.shell.alone(run.folder / "evaluation"):
        Evaluating(place, run, plan, machine, share).run_all()
    place.board.finish(run.name)


def check_dictionaries(place: Workplace, run: Run) -> None:
    """Raise an InputError if the dictionaries in the data have changed since a run was trained.

    The label dictionaries may differ if the run is tested with different trees from those used for
    training.
    """
    content, record = place.content, run.record
    names = [f"dict.{language}.txt" for language in (content.source, content.target)]
    names = names if record.tested else ["dict.*.txt"]
    for name, state in fingerprints(place.shards(record.test_trees), names).items():
        if run.record.files.get(name) != state:
            raise InputError(
                f"{run.folder}: {name} in the data folder has changed since this run was trained; "
                "train again, or restore the data"
            )


class Evaluating:
    """Evaluates one run in several steps; steps that are already complete are skipped."""

    def __init__(self, place: Workplace, run: Run, plan: Plan, machine: Machine, share: Share):
        self.place, self.run, self.plan = place, run, plan
        self.machine, self.share = machine, share
        self.shell, self.content = place.shell, place.content
        self.averaged = run.folder / "averaged.pt"

    def run_all(self) -> None:
        """Average the checkpoints, translate the test sets, and collect data for the report."""
        self.average()
        data = self.place.first_shard(self.run.record.test_trees)
        for test, subset in self.place.subsets(self.plan).items():
            self.translate(test, subset, data, "")
            if self.plan.with_parsing:
                self.translate_parsing(test, subset)
            if self.plan.examples:
                self.find_examples(test, subset)
                self.describe_heads(test, subset)

    def do(self, *step) -> None:
        self.place.once(self.run.name, self.run.folder, *step)

    def command(self, name: str, *words: str | Path) -> None:
        """Run a Python module; its output is appended to evaluate.log."""
        log = self.run.folder / "evaluate.log"
        self.shell.run(python(name, *words), log, self.share.environment())

    def average(self) -> None:
        size = self.place.recipe.size(self.run.record.size)  # raises InputError if it was removed
        last = self.plan.last or self.content.sizes[size].averaged
        self.do(
            "average",
            last,
            [self.run.folder / "finished"],
            [self.averaged],
            lambda: self.command(
                "fairseq_posattn.cli.average",
                *(self.run.folder, "--last", str(last), "--out", self.averaged),
            ),
        )

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
        self.do(
            f"translate.{kind}{test}",
            [self.content.evaluation.beam, self.content.evaluation.lenpen],
            inputs,
            outputs,
            lambda: self.generate(test, subset, data, self.shard_logs(test, kind)),
        )

    def shard_logs(self, test: str, kind: str) -> list[Path]:
        shards = self.at_most_all(self.machine.each(), test)  # fairseq fails on an empty shard
        return [self.file(test, f"{kind}shard{k}") for k in range(shards)]

    def sentences(self, test: str) -> int:
        return count_lines(self.place.raw / f"{test}.{self.content.source}")

    def at_most_all(self, wanted: int, test: str) -> int:
        """Return `wanted`, but at most the number of sentences in the test set."""
        return self.shell.act(lambda: min(wanted, self.sentences(test)), instead=wanted)

    def generate(self, test: str, subset: str, data: Path, logs: list[Path]) -> None:
        """Run fairseq-generate on all shards in parallel, and merge the outputs."""
        evaluation, shards = self.content.evaluation, len(logs)
        start = str(logs[0]).removesuffix("shard0")
        self.shell.act(remove_logs, start)
        options = {
            **self.place.task,
            **self.labels(),
            "gen-subset": subset,
            "path": self.averaged,
            "beam": evaluation.beam,
            "lenpen": evaluation.lenpen,
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
        out = ("--gen-subset", subset, "--sources", f"{start}src", "--out", f"{start}hyp")
        self.command("fairseq_posattn.cli.translations", data, *logs, *out)

    def labels(self) -> dict[str, Path]:
        """Return the option that selects the label dictionaries of the training data.

        The option is needed only if the run is tested with different trees from those used for
        training.
        """
        record = self.run.record
        return {"labels-of": self.place.first_shard(record.trees)} if record.tested else {}

    def environments(self, shards: int) -> list[dict[str, str]]:
        """Return the environment variables of each shard, including those that select the GPU."""
        base = self.share.environment()
        if self.machine.cpu:
            return [base] * shards
        devices = self.share.gpus or tuple(self.machine.devices())
        return [{**base, "CUDA_VISIBLE_DEVICES": device} for device in devices[:shards]]

    def translate_parsing(self, test: str, subset: str) -> None:
        """Translate the test set with live parsing, to measure the speed of both together."""
        data = self.place.first_shard(self.run.record.test_trees)
        name = ".".join(data.relative_to(self.place.work).parts)
        without = self.place.work / f"{name}.without_trees"
        self.shell.act(link_without_trees, data, without)
        self.translate(test, subset, without, "parsed.")

    def find_examples(self, test: str, subset: str) -> None:
        """Store the trees and attention weights of the first sentences for the report."""
        evaluation, count = self.content.evaluation, self.at_most_all(self.plan.examples, test)
        of_test = self.run.record.test_trees
        own = of_test == "own" or self.place.are_parsed(of_test)
        trees = self.trees(subset) if own else None
        options = {"beam": evaluation.beam, "lenpen": evaluation.lenpen}
        sentences = {"sentences": list(range(count)), **options}
        choices = [count, *options.values()]
        self.describe("examples", test, subset, choices, trees, sentences)

    def describe_heads(self, test: str, subset: str) -> None:
        """Compute statistics of the attention heads on the test set for the report.

        The attention weights are compared with the original trees, even if the model reads control
        trees or no trees.
        """
        self.describe("heads", test, subset, [], self.trees(subset), {})

    def describe(
        self,
        what: str,
        test: str,
        subset: str,
        choices: list,
        trees: Path | None,
        options: dict[str, Any],
    ) -> None:
        """Run the command `posattn examples` or `posattn heads` for the model on a test set.

        what: "examples" or "heads".
        """
        out = self.file(test, f"{what}.json")
        data = self.place.first_shard(self.run.record.test_trees)
        inputs = [self.averaged, data / "prepare.json", *sorted(data.glob(f"{subset}.*"))]
        given = {"path": self.averaged, "gen-subset": subset, **self.labels(), **options}
        if trees:
            inputs.append(trees)
            given["trees"] = trees
        words = arguments({**given, "cpu": self.machine.cpu, "out": out})
        run = partial(self.command, f"fairseq_posattn.cli.{what}", data, *words)
        self.do(f"{what}.{test}", choices, inputs, [out], run)

    def trees(self, subset: str) -> Path | None:
        """Return the file of the original trees (not control trees), or None if it is missing."""
        path = self.place.pieces_of(self.run.record.test_trees) / f"{subset}.conllu.xz"
        return path if self.shell.is_there(path) else None


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
