"""The options of posattn sgm and posattn translations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairseq_posattn.files.records import option
from fairseq_posattn.trees.projection import SEPARATOR


@dataclass(frozen=True, kw_only=True)
class SgmRequest:
    """The options of `posattn sgm`."""

    command: ClassVar = "posattn sgm"
    file: str = option("file with sources, references or translations (.sgm or .xml)")
    out: str = option("write one segment per line to this file", required=True)
    set: str | None = option(
        "select one of several sets by its sysid", None, metavar="ID", either="set"
    )
    first: bool = option("select the first of several sets", False, either="set")
    like: str | None = option(
        "write the segments in the same order as this file", None, metavar="SOURCE"
    )


@dataclass(frozen=True, kw_only=True)
class TranslationsRequest:
    """The options of `posattn translations`."""

    command: ClassVar = "posattn translations"
    data: str = option("data folder, which stores how subword units are joined into words")
    logs: list[str] = option("logs of fairseq-generate (all shards of one run)")
    out: str = option("write one translation per line to this file", required=True)
    gen_subset: str = option(
        "subset that was translated; its number of sentences is checked (default: %(default)s)",
        "test",
        metavar="NAME",
    )
    sources: str | None = option(
        "also write the segmented sources to this file", None, metavar="OUT"
    )
    separator: str = option(
        "subword marker, @@ or \u2581, if the data folder does not define it (default: "
        "%(default)s)",
        SEPARATOR,
    )
    detokenize: str | None = option(
        "detokenise with Moses for this language, unless the data folder defines a detokeniser",
        None,
        metavar="LANG",
    )
