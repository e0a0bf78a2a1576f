"""What the steps of a translation recipe share: its content and the folders of its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_posattn.experiments.experiment import Experiment
from fairseq_posattn.experiments.recipe import USER_DIR, read_recipe
from fairseq_posattn.experiments.recipe_content import Content
from fairseq_posattn.trees.control import TreeControl


class TranslationSetup(Experiment):
    """An experiment whose models translate, with its recipe.toml and its data folders."""

    def __init__(self, request: Any):
        super().__init__(request)
        self.recipe = read_recipe(str(self.folder))

    @property
    def content(self) -> Content:
        return self.recipe.content

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

    @property
    def task(self) -> dict[str, Any]:
        """Return the options that all fairseq programs require."""
        return {
            "user-dir": USER_DIR,
            "task": "structured_translation",
            "source-lang": self.content.source,
            "target-lang": self.content.target,
        }
