"""Read and write OUT.json, which says what the finished parse OUT was made from."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.records import as_record, at_least
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.parsing.records import Digest
from fairseq_posattn.text.parsing.sharded_parse import read_plan


@dataclass(frozen=True)
class Result:
    """A result describes a finished parse.

    trees: the digest of the trees that were given instead of a parser, if there are any.
    notes: pairs of a line number and what the user should know of that line.
    shown: whether the notes were printed before.
    """

    result: Digest
    lines: int = field(metadata=at_least(1))
    source: Digest
    trees: Digest | None
    parser: dict
    notes: list
    shown: bool = False

    def save(self, out: str) -> None:
        """Write the description beside the result."""
        with written_whole(place(out)) as file:
            json.dump(asdict(self), file)

    def save_as_shown(self, out: str) -> None:
        """Write the description, and that its notes were printed."""
        replace(self, shown=True).save(out)

    @property
    def made_from(self) -> tuple:
        """Return source, given trees and parser, on which the result depends."""
        return self.source, self.trees, self.parser


def place(out: str) -> Path:
    """Return the path of the description of a result."""
    return Path(f"{out}.json")


def finished(text: str, out: str, settings: ParserSettings, trees: str | None) -> Result | None:
    """Return the existing result, if it is undamaged and is what this parse would make."""
    found = read(out)
    if found is None or not Path(out).exists():
        return None
    now = digest(text), trees and digest(trees), settings.describe()
    return found if now == found.made_from and digest(out) == found.result else None


def digest(path: str) -> Digest:
    """Return the digest of a file."""
    return Digest(**fingerprint(path))


def read(out: str) -> Result | None:
    """Read the description of a result; return None if it is missing or damaged."""
    path = place(out)
    with contextlib.suppress(FileNotFoundError, InputError):
        return as_record(Result, read_json(path, ""), str(path), "")
    return None


def is_made_by(result: Result, parts: Path) -> bool:
    """Return whether a folder of parts belongs to the result, and not to another parse."""
    with contextlib.suppress(FileNotFoundError, InputError):
        return made_from(read_plan(parts)) == result.made_from
    return False


def made_from(plan: dict) -> tuple:
    """Return source, trees and parser of a plan, without names of files, which may be moved."""
    trees = plan["trees"]
    given = trees and Digest(trees["bytes"], trees["sha256"])
    return Digest(**plan["source"]), given, plan["parser"]
