"""Describe what stands in the recipe.toml of a trial, which is no translation of a corpus."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments.allowed import NOT_TRAINING, Options, check_options, plain


@dataclass(frozen=True)
class TrialRow:
    """A row is a model in the tables of a trial.

    label: what the tables call the model, if that is not its name.
    training: options of fairseq-train; `on` has those for a corpus alone.
    published: figures of the paper, by corpus and by name.
    in_table: says whether table.sh trains the model where --models does not name it.
    """

    name: str = field(metadata=plain())
    label: str = ""
    training: Options = field(default_factory=dict)
    on: dict[str, Options] = field(default_factory=dict, metadata=plain())
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    in_table: bool = True

    def __post_init__(self) -> None:
        for options in (self.training, *self.on.values()):
            check_options("training", options, NOT_TRAINING)

    @property
    def title(self) -> str:
        """Return what the model is called on the command line."""
        return self.name

    @property
    def shown(self) -> str:
        """Return what the tables call the model."""
        return self.label or self.name


@dataclass(frozen=True)
class TrialContent:
    """This is what stands in the recipe.toml of a trial.

    data: choices of the recipe about its data, which its trial.py explains.
    """

    title: str
    models: list[TrialRow]
    training: Options = field(default_factory=dict)
    data: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [row.name for row in self.models]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"there are two models '{again}'")
        check_options("training", self.training, NOT_TRAINING)
