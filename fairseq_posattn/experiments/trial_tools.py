"""Helper methods with which the trial.py of a recipe creates data and tests models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.commands import Command, python
from fairseq_posattn.experiments.experiment import Experiment
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe import USER_DIR, arguments
from fairseq_posattn.experiments.recipe_content import TrialContent
from fairseq_posattn.experiments.runs import Run
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.requests import command_of

PREPROCESS = "fairseq_cli.preprocess"
TASK = ("task", "source-lang", "target-lang")


class TrialTools(Experiment):
    """The helper methods that the trial.py of a recipe can call."""

    content: TrialContent

    def data(self, corpus: str, seed: int) -> Path:
        """Return the data folder for a corpus and a seed."""
        raise NotImplementedError

    def once(
        self,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Create data unless they already exist for the same choices and inputs.

        If several recipes need the same data at the same time, one recipe creates them while the
        others wait.
        """
        with self.shell.locked(self.work / f"making.{name}"):
            self.do_once("data", self.work, name, choices, inputs, outputs, action)
        self.progress.finish("data")

    def make(self, program: Any, *words: str | Path) -> None:
        """Run a program that creates data; its output is appended to prepare.log.

        program: the request of a subcommand, a Python module, or the path of a Python file.
        """
        self.shell.run(called(program, *words), self.work / "prepare.log")

    def preprocess(self, data: Path, *words: str | Path) -> None:
        """Create a data folder atomically with fairseq-preprocess.

        words: options of fairseq-preprocess.
        """
        whole = self.shell.act(folder_written_whole, data, True, instead=nullcontext(data))
        with whole as made:
            self.make(PREPROCESS, *words, "--destdir", made)

    def program(
        self, name: str, options: Options, run: Run, machine: Machine, share: Share, log: Path
    ) -> None:
        """Run a program of fairseq on the data of a run; its output overwrites the log.

        name: name of the program without the prefix fairseq-, such as "validate".
        """
        shared = {key: value for key, value in self.content.training.items() if key in TASK}
        everything = {"user-dir": USER_DIR, **shared, **options, "cpu": machine.cpu}
        data = self.data(run.record.size, run.record.seed)
        command = called(f"fairseq_cli.{name}", data, *arguments(everything))
        self.shell.run(command, log, share.environment(), append=False)

    def given(self, source: Path | None) -> Path:
        """Return the folder given by --from; raise an InputError if there is no such folder."""
        if source is None:
            raise InputError(
                f"{self.name} needs the folder of its corpus; give its path with --from FOLDER"
            )
        if not source.is_dir():
            raise InputError(
                f"{source}: there is no such folder; give the path of the corpus with --from"
            )
        return source

    def command(self, run: Run, share: Share, *words: str | Path) -> None:
        """Run a Python module or file; its output is appended to evaluate.log of the run."""
        self.shell.run(called(*words), run.folder / "evaluate.log", share.environment())


def called(program: Any, *words: str | Path) -> Command:
    """Return the command that runs a request, a Python module (str) or a Python file (Path)."""
    if not isinstance(program, str | Path):
        return command_of(program)
    start = python(str(program))
    return [*(start if isinstance(program, str) else [start[0], program]), *words]
