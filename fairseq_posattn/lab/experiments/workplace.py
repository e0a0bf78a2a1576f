"""Know the folders of an experiment, and what the user asks of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.lab.experiments.board import Board
from fairseq_posattn.lab.experiments.commands import Shell
from fairseq_posattn.lab.experiments.recipe import USER_DIR, Recipe
from fairseq_posattn.lab.experiments.recipe_content import Content
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.work.made import Steps


@dataclass(frozen=True)
class Plan:
    """A plan holds what the user asks of trainings and evaluations, beside the models.

    updates, last: replace those of the recipe, if they are given.
    training: options of fairseq-train from the end of the command line.
    examples: the trees and the attention of so many sentences are kept for the report.
    keep, from_study: the translations are kept in the recipe, or those that are kept there are
        scored, and nothing is trained.
    called: the command line that asks for all this.
    """

    updates: int | None = None
    precision: str | None = None
    training: Sequence[str] = ()
    last: int | None = None
    examples: int = 5
    with_parsing: bool = False
    on_valid: bool = False
    keep: bool = False
    from_study: bool = False
    called: str = ""


@dataclass
class Place:
    """A recipe works in this folder, by this shell, and shows what it does on the board."""

    work: Path
    shell: Shell
    board: Board = field(default_factory=Board)
    steps: dict[tuple[Path, str], Steps] = field(default_factory=dict)

    @property
    def runs(self) -> Path:
        return self.work / "runs"

    def once(
        self,
        about: str,
        folder: Path,
        name: str,
        choices: object,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        action: Callable[[], object],
    ) -> None:
        """Do a step of the work in a folder once; the board shows it in the line `about`."""
        if self.shell.dry_run:
            action()
            return
        if (folder, about) not in self.steps:  # they know the checksums of large files
            tell = partial(self.board.show, about, new=True)
            self.steps[folder, about] = Steps(folder, tell)
        self.steps[folder, about].do(name, choices, inputs, outputs, action)


@dataclass
class Workplace(Place):
    """A translation recipe has these folders for its texts and data."""

    recipe: Recipe = field(kw_only=True)

    @property
    def content(self) -> Content:
        return self.recipe.content

    @property
    def raw(self) -> Path:
        return self.work / "raw"

    @property
    def pieces(self) -> Path:
        """Return the folder of the files between the steps of posattn prepare."""
        return self.pieces_of("own")

    def pieces_of(self, trees: str) -> Path:
        """Return this folder for a control of trees; those of parsers have one of their own."""
        return self.work / (f"data.{trees}.work" if self.are_parsed(trees) else "data.work")

    def are_parsed(self, trees: str) -> bool:
        """Return whether trees are those of a parser, where the recipe's own are others."""
        return trees in self.content.corpus.all_parsers

    def data(self, trees: str) -> Path:
        """Return the data folder for a control of trees."""
        if self.are_parsed(trees):
            return self.work / f"data.{trees}"
        control = TreeControl.from_tag(trees)
        return self.work / (f"data.{control.tag}" if control else "data")

    def shards(self, trees: str) -> list[Path]:
        """Return the data folder, or the folders of its shards."""
        data = self.data(trees)
        return sorted(data.glob("shard*"), key=lambda path: int(path.name[5:])) or [data]

    def first_shard(self, trees: str) -> Path:
        """Return the data folder that has the test sets."""
        return self.shards(trees)[0]

    def subsets(self, plan: Plan) -> dict[str, str]:
        """Return fairseq's name of each test set, or that of the validation set."""
        corpus = self.content.corpus
        if plan.on_valid:
            return {corpus.valid: "valid"}
        return {name: f"test{k or ''}" for k, name in enumerate(corpus.tests)}

    @property
    def task(self) -> dict[str, Any]:
        """Return the options that all programs of fairseq need."""
        return {
            "user-dir": USER_DIR,
            "task": "structured_translation",
            "source-lang": self.content.source,
            "target-lang": self.content.target,
        }
