"""The files of a recipe, and the programs that write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.commands import Command, Shell, python
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe import USER_DIR, arguments, read_recipe
from fairseq_posattn.experiments.recipe_content import Content, Row, Size
from fairseq_posattn.experiments.runs import Run
from fairseq_posattn.experiments.training import TOTAL
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.progress import ProgressDisplay
from fairseq_posattn.files.requests import command_of
from fairseq_posattn.jobs.step_records import Steps
from fairseq_posattn.trees.control import TreeControl

PREPROCESS = "fairseq_cli.preprocess"
TRAINING = {  # the settings of Vaswani et al. (2017), which a recipe can override
    "criterion": "label_smoothed_cross_entropy",
    "label-smoothing": 0.1,
    "optimizer": "adam",
    "adam-betas": "(0.9, 0.98)",
    "adam-eps": "1e-9",
    "clip-norm": 0,
    "lr-scheduler": "inverse_sqrt",
    "warmup-updates": 4000,
    "warmup-init-lr": "1e-7",
}
TASK = ("task", "source-lang", "target-lang")
UPDATES = "max-update"
OF_TRANSLATION = ("size", "tokens", "last", "with_parsing", "on_valid", "keep", "from_study")


class Workspace:
    """The settings and folders of an experiment, and methods that run programs in them.

    without: options that do not apply to the recipe.
    most_baselines: the largest number of baselines that the tables support.
    read_in_training: the files of a data folder that training reads, as glob patterns.
    small: the models train in fp32 on at most one GPU, unless the options select otherwise.
    """

    without: Sequence[str] = OF_TRANSLATION
    most_baselines = 0
    read_in_training: Sequence[str] = ("train.*", "valid.*", "dict*.txt")
    small = True

    def __init__(self, request: Any):
        """Create the workspace for a step of a recipe, such as `Table(recipe="toy")`."""
        self.recipe = read_recipe(request.recipe)
        self.folder, self.name = self.recipe.folder, self.recipe.name
        self.work = (request.work or self.folder / "work").absolute()
        self.settings = request
        self.machine = replace(
            request.machine,
            tokens=getattr(request, "tokens", None),
            precision=getattr(request, "precision", None) or ("fp32" if self.small else None),
            dry_run=request.dry_run,
        )
        self.shell, self.progress = Shell(request.dry_run), ProgressDisplay()
        self.steps: dict[tuple[Path, str], Steps] = {}
        for option in self.without:
            if vars(request).get(option):
                given = f"--{option.replace('_', '-')}"
                raise InputError(f"{given} does not apply to the recipe {self.name}; omit it")
        baselines = vars(request).get("baseline") or []
        if self.most_baselines < (1 if isinstance(baselines, str) else len(baselines)):
            most = self.most_baselines
            found = f"only {most} --baseline; use fewer" if most else "no --baseline; omit it"
            raise InputError(f"{self.name} supports {found}")

    @property
    def content(self) -> Content:
        return self.recipe.content

    @property
    def runs(self) -> Path:
        return self.work / "runs"

    @property
    def task(self) -> Options:
        """Return the options that all fairseq programs require."""
        return {
            "user-dir": USER_DIR,
            "task": "structured_translation",
            "source-lang": self.content.source or None,
            "target-lang": self.content.target or None,
            **{key: value for key, value in self.content.training.items() if key in TASK},
        }

    # Methods that a recipe can override

    def data(self, corpus: str, seed: int) -> Path:
        """Return the data folder for a corpus and a seed."""
        raise NotImplementedError

    def shards(self, row: Row, seed: int) -> list[Path]:
        """Return the data folders from which a model is trained."""
        return [self.data(row.size, seed)]

    def outputs(self, folder: Path) -> Options:
        """Return options of fairseq-train that specify additional output files of a run."""
        return {}

    def options_of(self, row: Row, seed: int) -> Options:
        """Return the options of fairseq-train that do not depend on the machine."""
        size, updates = self.content.sizes.get(row.size), self.settings.updates
        found = {**self.content.training, **(size.training if size else {}), **row.training}
        if size:
            found = options_of_size(row.model, size, found)
        elif updates and UPDATES not in found:
            raise InputError(
                f"{self.name} counts epochs, not updates; replace --updates with -- --max-epoch N"
            )
        if updates:
            found |= {name: updates for name in (UPDATES, TOTAL) if name in found}
        return {**found, "seed": seed}

    # The folders and settings of a translation recipe

    @property
    def raw(self) -> Path:
        return self.work / "raw"

    def pieces(self, trees: str = "own") -> Path:
        """Return the folder of intermediate files of posattn prepare for one kind of tree.

        Control trees use the same folder as the original trees (`own`).
        """
        return self.work / (f"data.{trees}.work" if self.are_parsed(trees) else "data.work")

    def are_parsed(self, trees: str) -> bool:
        """Return whether these are additional trees from a parser, not `own` or control trees."""
        return trees in self.content.corpus.all_parsers

    def data_of(self, trees: str) -> Path:
        """Return the data folder for one kind of tree."""
        if self.are_parsed(trees):
            return self.work / f"data.{trees}"
        control = TreeControl.from_tag(trees)
        return self.work / (f"data.{control.tag}" if control else "data")

    def shards_of(self, trees: str) -> list[Path]:
        """Return the shards of a data folder, or the folder itself if it has no shards.

        The first one contains the test sets.
        """
        data = self.data_of(trees)
        return sorted(data.glob("shard*"), key=lambda path: int(path.name[5:])) or [data]

    def subsets(self) -> dict[str, str]:
        """Map each test set (or, with `on_valid`, the validation set) to fairseq's subset name."""
        corpus = self.content.corpus
        if self.settings.on_valid:
            return {corpus.valid: "valid"}
        return {name: f"test{k or ''}" for k, name in enumerate(corpus.tests)}

    def decoding(self, size: str) -> dict[str, float]:
        """Return the number of averaged checkpoints and the options of the beam search."""
        averaged = self.settings.last or self.content.sizes[size].averaged
        evaluation = self.content.evaluation
        return {"averaged": averaged, "beam": evaluation.beam, "lenpen": evaluation.lenpen}

    # Methods that create files; a trial.py can call them

    def do_once(
        self,
        about: str,
        folder: Path,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Run a step unless it has been completed already with the same choices and inputs.

        about: name of the line in the progress display.
        """
        if self.shell.dry_run:
            action()
            return
        if (folder, about) not in self.steps:  # reused, because it caches checksums
            self.steps[folder, about] = Steps(folder, partial(self.progress.show, about, new=True))
        self.steps[folder, about].do(name, choices, inputs, outputs, action)

    def once(
        self,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Create data unless they already exist for the same choices and inputs.

        If several processes need the same data at the same time, one creates them while the others
        wait.
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

    def given(self, source: Path | None) -> Path:
        """Return the folder given by --from; raise an InputError if there is no such folder."""
        if source is None:
            raise InputError(
                f"{self.name} needs the folder of its corpus; give its path with --from FOLDER"
            )
        if not (self.shell.dry_run or source.is_dir()):
            raise InputError(
                f"{source}: there is no such folder; give the path of the corpus with --from"
            )
        return source

    def program(
        self, name: str, options: Options, run: Run, machine: Machine, share: Share, log: Path
    ) -> None:
        """Run a program of fairseq on the data of a run; its output overwrites the log.

        name: name of the program without the prefix fairseq-, such as "validate".
        """
        words = arguments({**self.task, **options, "cpu": machine.cpu})
        data = self.data(run.record.size, run.record.seed)
        command = called(f"fairseq_cli.{name}", data, *words)
        self.shell.run(command, log, share.environment(), append=False)

    def command(self, run: Run, share: Share, *words: str | Path) -> None:
        """Run a Python module or file; its output is appended to evaluate.log of the run."""
        self.shell.run(called(*words), run.folder / "evaluate.log", share.environment())


def called(program: Any, *words: str | Path) -> Command:
    """Return the command that runs a request, a Python module (str) or a Python file (Path)."""
    if not isinstance(program, str | Path):
        return command_of(program)
    start = python(str(program))
    return [*(start if isinstance(program, str) else [start[0], program]), *words]


def options_of_size(model: str, size: Size, training: Options) -> dict[str, Any]:
    """Return the options of fairseq-train for a preset and a size; `training` takes precedence."""
    chosen = {**TRAINING, **training}
    if chosen["lr-scheduler"] != TRAINING["lr-scheduler"] and "warmup-init-lr" not in training:
        del chosen["warmup-init-lr"]  # not all learning rate schedules support it
    return {
        "arch": f"posattn_{model}{size.arch}",
        "batch-tokens": size.batch_tokens,
        **chosen,
    }
