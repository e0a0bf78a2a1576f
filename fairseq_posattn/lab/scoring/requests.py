"""The options of posattn examples and posattn heads, which are read before torch is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.io.argument_types import option, positive
from fairseq_posattn.lab.scoring.loaded_model import OnData


@dataclass(frozen=True, kw_only=True)
class ExampleRequest(OnData):
    """This asks for some sentences of a subset of the data; each field is an option of
    posattn examples."""

    sentences: list[int] = option(
        "choose sentences by their numbers, counted from 0 as in fairseq-generate's S-NUMBER",
        required=True,
    )
    beam: int = option("set the size of the beam (default: %(default)s)", 5, type=positive)
    lenpen: float = option("set the length penalty of fairseq-generate (default: %(default)s)", 1.0)
    references: str | None = option(
        "read references from here, a line for each sentence (default: the targets of the data)",
        *(None, "", "FILE"),
    )
    trees: str | None = option(
        "read words and relations from here, a tree for each sentence", None, "", "CONLLU"
    )
    out: Path = option(
        "write the examples to this file (default: %(default)s)", Path("examples.json")
    )


@dataclass(frozen=True, kw_only=True)
class HeadRequest(OnData):
    """This asks for the heads of a model; each field is an option of posattn heads."""

    first: int | None = option("read only the first N sentences", None, type=positive)
    trees: str | None = option(
        "compare with these trees, one for each sentence (default: those beside the data)",
        *(None, "", "CONLLU"),
    )
    out: Path = option("write the figures to this file (default: %(default)s)", Path("heads.json"))
