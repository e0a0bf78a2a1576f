"""The options of posattn examples and posattn heads; this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.io.argument_types import option, positive
from fairseq_posattn.lab.inspection.model import OnData


@dataclass(frozen=True, kw_only=True)
class ExampleRequest(OnData):
    """The options of `posattn examples`."""

    sentences: list[int] = option(
        "numbers of the sentences, counted from 0 as in fairseq-generate's S-NUMBER",
        required=True,
    )
    beam: int = option("beam size (default: %(default)s)", 5, type=positive)
    lenpen: float = option("length penalty, as in fairseq-generate (default: %(default)s)", 1.0)
    references: str | None = option(
        "read references from this file, one per line (default: the target side of the data)",
        *(None, "", "FILE"),
    )
    trees: str | None = option(
        "read words and relations from this file, one tree per sentence", None, "", "CONLLU"
    )
    out: Path = option(
        "write the examples to this file (default: %(default)s)", Path("examples.json")
    )


@dataclass(frozen=True, kw_only=True)
class HeadRequest(OnData):
    """The options of `posattn heads`."""

    first: int | None = option("read only the first N sentences", None, type=positive)
    trees: str | None = option(
        "compare attention with the trees in this file, one per sentence (default: those in DATA)",
        *(None, "", "CONLLU"),
    )
    out: Path = option("write the results to this file (default: %(default)s)", Path("heads.json"))
