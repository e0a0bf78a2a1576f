"""What is kept beside a finished parse: OUT.json says what OUT was made from."""

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
from fairseq_posattn.parsing.records import Digest
from fairseq_posattn.parsing.sharded_parse import read_plan
from fairseq_posattn.text.parser_settings import ParserSettings


@dataclass(frozen=True)
class Result:
    """A finished parse; notes: line numbers, and what the user should know of the line; shown:
    whether the user was told of them."""

    result: Digest
    lines: int = field(metadata=at_least(1))
    source: Digest
    trees: Digest | None  # that were given
    parser: dict
    notes: list
    shown: bool = False

    def save(self, out: str) -> None:
        with written_whole(place(out)) as file:
            json.dump(asdict(self), file)

    def save_as_shown(self, out: str) -> None:
        replace(self, shown=True).save(out)

    @property
    def made_from(self) -> tuple:
        return self.source, self.trees, self.parser


def place(out: str) -> Path:
    return Path(f"{out}.json")


def finished(text: str, out: str, settings: ParserSettings, trees: str | None) -> Result | None:
    """The result that is there, if it is whole, and what this parse would make."""
    found = read(out)
    if found is None or not Path(out).exists():
        return None
    now = digest(text), trees and digest(trees), settings.describe()
    return found if now == found.made_from and digest(out) == found.result else None


def digest(path: str) -> Digest:
    return Digest(**fingerprint(path))


def read(out: str) -> Result | None:
    """What was stored beside the result; a damaged file counts for nothing."""
    path = place(out)
    with contextlib.suppress(FileNotFoundError, InputError):
        return as_record(Result, read_json(path, ""), str(path), "")
    return None


def is_made_by(result: Result, parts: Path) -> bool:
    """Whether a folder of parts is that of the result, and not of a parse with other options."""
    with contextlib.suppress(FileNotFoundError, InputError):
        return made_from(read_plan(parts)) == result.made_from
    return False


def made_from(plan: dict) -> tuple:
    """Source, trees and parser of a plan, without the names of files, which may be moved."""
    trees = plan["trees"]
    given = trees and Digest(trees["bytes"], trees["sha256"])
    return Digest(**plan["source"]), given, plan["parser"]
