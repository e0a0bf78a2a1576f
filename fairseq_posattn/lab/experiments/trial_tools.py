"""Helpers with which the trial.py of a recipe makes data and tests models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import folder_written_whole
from fairseq_posattn.lab.experiments.allowed import Options
from fairseq_posattn.lab.experiments.commands import Command, python
from fairseq_posattn.lab.experiments.experiment import Experiment
from fairseq_posattn.lab.experiments.machine import Machine, Share
from fairseq_posattn.lab.experiments.recipe import USER_DIR, arguments
from fairseq_posattn.lab.experiments.recipe_content import TrialContent
from fairseq_posattn.lab.experiments.runs import Run

PREPROCESS = "fairseq_cli.preprocess"
TASK = ("task", "source-lang", "target-lang")


class TrialTools(Experiment):
    """The methods that the trial.py of a recipe calls."""

    content: TrialContent

    def data(self, corpus: str, seed: int) -> Path:
        """Return the data folder for a training run."""
        raise NotImplementedError

    def once(
        self,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Make data, unless they were made with the same choices and inputs before.

        If several recipes need the same data at once, one makes them and the others wait.
        """
        with self.place.shell.alone(self.place.work / f"making.{name}"):
            self.place.once("data", self.place.work, name, choices, inputs, outputs, action)
        self.place.board.finish("data")

    def make(self, *words: str | Path) -> None:
        """Run a Python module or program that makes data, with its output in prepare.log."""
        self.place.shell.run(called(*words), self.place.work / "prepare.log")

    def preprocess(self, data: Path, *words: str | Path) -> None:
        """Make a data folder with fairseq-preprocess, atomically."""
        whole = self.place.shell.act(folder_written_whole, data, True, instead=nullcontext(data))
        with whole as made:
            self.make(PREPROCESS, *words, "--destdir", made)

    def program(
        self, name: str, options: Options, run: Run, machine: Machine, share: Share, log: Path
    ) -> None:
        """Run one of fairseq's programs on the data of a run; its output replaces the log."""
        shared = {key: value for key, value in self.content.training.items() if key in TASK}
        everything = {"user-dir": USER_DIR, **shared, **options, "cpu": machine.cpu}
        data = self.data(run.record.size, run.record.seed)
        command = called(f"fairseq_cli.{name}", data, *arguments(everything))
        self.place.shell.run(command, log, share.environment(), append=False)

    def given(self, source: Path | None) -> Path:
        """Return the folder given by --from; raise an InputError if it does not exist."""
        if source is None:
            raise InputError(
                f"{self.name} needs the folder of its corpus; name it with --from FOLDER"
            )
        if not source.is_dir():
            raise InputError(
                f"{source}: there is no such folder; name that of the corpus with --from"
            )
        return source

    def command(self, run: Run, share: Share, *words: str | Path) -> None:
        """Run a Python module or program, with its output appended to the run's evaluate.log."""
        self.place.shell.run(called(*words), run.folder / "evaluate.log", share.environment())


def called(program: str | Path, *words: str | Path) -> Command:
    """Return the command that runs a module (str) or a Python file (Path)."""
    start = python(str(program))
    return [*(start if isinstance(program, str) else [start[0], program]), *words]
