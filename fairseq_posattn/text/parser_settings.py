"""What a parser is told, and what the trees of a corpus therefore depend on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fairseq_posattn.io.records import at_least, one_of
from fairseq_posattn.trees.checks import SEVERAL_ROOTS

LONG_LINES = ("cut", "skip")
ON_FAILURE = ("stop", "flat")
PARSERS = ("stanza", "conllu")
PARSER_THREADS = "POSATTN_PARSER_THREADS"  # of one process, on CPUs; set where it has several
REMEDIES = ("on_failure", "several_roots")  # for lines that would be an error without them


@dataclass(frozen=True)
class ParserSettings:
    """Everything that a tree depends on; kept with what was parsed."""

    parser: str = field(default="stanza", metadata=one_of(*PARSERS))
    lang: str = "en"
    model_dir: str | None = None
    package: str = "default"
    tokenized: bool = False
    max_words: int = field(default=250, metadata=at_least(1))
    long_lines: str = field(default="cut", metadata=one_of(*LONG_LINES))
    on_failure: str = field(default="stop", metadata=one_of(*ON_FAILURE))
    several_roots: str = field(default="error", metadata=one_of(*SEVERAL_ROOTS))

    def describe(self) -> dict[str, Any]:
        """What the trees of a line that can be parsed depend on."""
        return {name: value for name, value in asdict(self).items() if name not in REMEDIES}
