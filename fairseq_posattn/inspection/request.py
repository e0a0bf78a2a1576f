"""The options of posattn show; this module does not import torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import at_least, option

HEADS, SEED = 4, 2  # defaults


@dataclass(frozen=True, kw_only=True)
class ShowRequest:
    """The options of posattn show."""

    command: ClassVar = "posattn show"
    specification: str | None = option(
        "mechanisms to draw (same syntax as --encoder-attention)",
        None,
        positional=True,
        metavar="SPECIFICATION",
    )
    path: Path | None = option(
        "draw the encoder of this trained model instead of a SPECIFICATION",
        None,
        metavar="CHECKPOINT",
    )
    data: str | None = option(
        "with --path: data folder of the model (default: the path stored in the checkpoint)",
        None,
        metavar="FOLDER",
    )
    sentence: str | None = option(
        "draw this sentence, which has no tree and is split at spaces (with --path: a raw "
        "sentence)",
        None,
        metavar="TEXT",
        either="sentence",
    )
    conllu: str | None = option(
        "draw a sentence and its tree from this file, which may be .gz, .xz or .zst (default: a "
        "built-in sentence)",
        None,
        metavar="FILE",
        either="sentence",
    )
    number: int | None = option(
        "with --conllu: draw this sentence, counted from 0 (default: 0)", None, at_least(0)
    )
    out: Path = option(
        "write the picture to this file (.png, .svg or .html)", required=True, metavar="FILE"
    )
    layer: int | None = option(
        "draw this layer, counted from 0 (default: the first layer with a mechanism)",
        None,
        at_least(0),
    )
    heads: int | None = option(
        f"number of heads (default: at least {HEADS}, as the specification requires)",
        None,
        at_least(1),
    )
    seed: int = option("random seed (default: %(default)s)", SEED, at_least(0))
    user_dir: str | None = option(
        "import your own mechanisms from this folder, as in training", None, metavar="FOLDER"
    )

    def __post_init__(self) -> None:
        """Raise an InputError if options contradict each other."""
        if (self.specification is None) == (self.path is None):
            raise InputError("expected either a SPECIFICATION or --path; give one of them")
        if self.path is None and self.data is not None:
            raise InputError(
                "--data applies only to a trained model; give its checkpoint with --path"
            )
        if self.path is not None and (self.heads is not None or self.seed != SEED):
            raise InputError("--heads and --seed do not apply to a trained model; leave them out")
        if self.path is not None and self.conllu is None and self.sentence is None:
            raise InputError("--path requires a sentence; give --sentence TEXT or --conllu FILE")
