"""The folders of an experiment, and the options that the user specified for it."""

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
    """The user's options for training and evaluation.

    updates, last: number of updates and number of averaged checkpoints (default: as in the recipe).
    training: options of fairseq-train, given after -- on the command line.
    examples: number of sentences whose trees and attention weights are stored for the report.
    keep: store the results of all runs in the recipe.
    from_study: use the results stored in the recipe instead of training models.
    called: the complete command line.
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
    """The work folder of a recipe, and the shell and progress display used for its steps."""

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
        """Run a step unless it has been completed already with the same choices and inputs.

        about: name of the line in the progress display.
        """
        if self.shell.dry_run:
            action()
            return
        if (folder, about) not in self.steps:  # reused, because it caches checksums
            tell = partial(self.board.show, about, new=True)
            self.steps[folder, about] = Steps(folder, tell)
        self.steps[folder, about].do(name, choices, inputs, outputs, action)


@dataclass
class Workplace(Place):
    """The work folder of a translation recipe, which contains its text files and data folders."""

    recipe: Recipe = field(kw_only=True)

    @property
    def content(self) -> Content:
        return self.recipe.content

    @property
    def raw(self) -> Path:
        return self.work / "raw"

    @property
    def pieces(self) -> Path:
        """Return the folder of intermediate files for the original trees."""
        return self.pieces_of("own")

    def pieces_of(self, trees: str) -> Path:
        """Return the folder of intermediate files of posattn prepare for one kind of tree.

        Control trees use the same folder as the original trees (`own`).
        """
        return self.work / (f"data.{trees}.work" if self.are_parsed(trees) else "data.work")

    def are_parsed(self, trees: str) -> bool:
        """Return whether these are additional trees from a parser, not `own` or control trees."""
        return trees in self.content.corpus.all_parsers

    def data(self, trees: str) -> Path:
        """Return the data folder for one kind of tree."""
        if self.are_parsed(trees):
            return self.work / f"data.{trees}"
        control = TreeControl.from_tag(trees)
        return self.work / (f"data.{control.tag}" if control else "data")

    def shards(self, trees: str) -> list[Path]:
        """Return the shards of the data folder, or the folder itself if it has no shards."""
        data = self.data(trees)
        return sorted(data.glob("shard*"), key=lambda path: int(path.name[5:])) or [data]

    def first_shard(self, trees: str) -> Path:
        """Return the first shard (or the unsharded data folder), which contains the test sets."""
        return self.shards(trees)[0]

    def subsets(self, plan: Plan) -> dict[str, str]:
        """Map each test set (or, with `on_valid`, the validation set) to fairseq's subset name."""
        corpus = self.content.corpus
        if plan.on_valid:
            return {corpus.valid: "valid"}
        return {name: f"test{k or ''}" for k, name in enumerate(corpus.tests)}

    @property
    def task(self) -> dict[str, Any]:
        """Return the options that all fairseq programs require."""
        return {
            "user-dir": USER_DIR,
            "task": "structured_translation",
            "source-lang": self.content.source,
            "target-lang": self.content.target,
        }
