"""Run the programs that make the data of a trial and test its models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import folder_written_whole
from fairseq_posattn.io.lock import locked
from fairseq_posattn.lab.experiments.allowed import Options
from fairseq_posattn.lab.experiments.commands import Command, python
from fairseq_posattn.lab.experiments.machine import Machine, Share
from fairseq_posattn.lab.experiments.recipe import USER_DIR, arguments
from fairseq_posattn.lab.experiments.runs import Run
from fairseq_posattn.lab.experiments.trial_content import TrialContent
from fairseq_posattn.lab.experiments.workplace import Place
from fairseq_posattn.work.made import Steps

PREPROCESS = "fairseq_cli.preprocess"
TASK = ("task", "source-lang", "target-lang")


class TrialTools:
    """This has what the trial.py of a recipe calls."""

    folder: Path
    place: Place
    content: TrialContent

    @property
    def name(self) -> str:
        """Return the name of the recipe."""
        return self.folder.name

    def data(self, corpus: str, seed: int) -> Path:
        """Return the folder of the data for a training."""
        raise NotImplementedError

    def once(
        self,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Make data by an action, unless they were made with the same choices and inputs before.

        Of several recipes that are started at once, the others wait for the first one.
        """
        if self.place.shell.dry_run:
            action()
            return
        with locked(self.place.work / f"making.{name}", wait=True):
            steps = Steps(self.place.work, partial(self.place.board.show, "data", new=True))
            steps.do(name, choices, inputs, outputs, action)
        self.place.board.finish("data")

    def make(self, *words: str | Path) -> None:
        """Run a Python module or program that makes data; its output goes to prepare.log."""
        self.place.shell.run(called(*words), self.place.work / "prepare.log")

    def preprocess(self, data: Path, *words: str | Path) -> None:
        """Make a data folder by fairseq-preprocess, which is there when it is complete."""
        if self.place.shell.dry_run:
            self.make(PREPROCESS, *words, "--destdir", data)
            return
        with folder_written_whole(data, replace=True) as made:
            self.make(PREPROCESS, *words, "--destdir", made)

    def program(
        self,
        name: str,
        options: Options,
        run: Run,
        machine: Machine,
        share: Share,
        log: Path,
    ) -> None:
        """Run a program of fairseq on the data of a run, whose whole output is the log."""
        shared = {key: value for key, value in self.content.training.items() if key in TASK}
        everything = {"user-dir": USER_DIR, **shared, **options, "cpu": machine.cpu}
        data = self.data(run.record.size, run.record.seed)
        command = called(f"fairseq_cli.{name}", data, *arguments(everything))
        self.place.shell.run(command, log, share.environment(), append=False)

    def given(self, source: Path | None) -> Path:
        """Return the folder of --from, which must be there."""
        if source is None:
            raise InputError(f"name the folder of the corpus: prepare.sh {self.name} --from DIR")
        if not source.is_dir():
            raise InputError(f"{source}: there is no such folder; name that of the corpus")
        return source

    def command(self, run: Run, share: Share, *words: str | Path) -> None:
        """Run a Python module or program with its arguments; it adds to the log of the tests."""
        self.place.shell.run(called(*words), run.folder / "evaluate.log", share.environment())


def called(program: str | Path, *words: str | Path) -> Command:
    """Return the command that runs a module by its name, or a program by its path."""
    start = python(str(program))
    return [*(start if isinstance(program, str) else [start[0], program]), *words]
