"""The parts of a large parse: a folder beside the result, which outlives any kill.

    OUT.parts/plan.json            the source (lines, checksum), the parser, the shards
    OUT.parts/input/00000.txt      a shard: some lines of the source
    OUT.parts/done/00000.conllu.xz their trees
    OUT.parts/done/00000.json      written last: what is there is done

A shard is done by one process, from its first line to its last; what appears under a final name is
complete. So the joined result does not depend on who did what, or how often it was killed.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import leftovers, temp_name
from fairseq_posattn.parsing import records
from fairseq_posattn.parsing.records import Shard
from fairseq_posattn.text.parser_settings import ParserSettings

PLAN = "plan.json"
SUFFIXES = (".conllu.xz", ".conllu.zst", ".conllu")


@dataclass(frozen=True)
class ShardedParse:
    """A parse of one file, cut into shards."""

    folder: Path
    source: str
    out: str
    settings: ParserSettings
    shards: list[Shard]

    @property
    def lines(self) -> int:
        return sum(shard.lines for shard in self.shards)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def input(self, k: int) -> Path:
        return self.folder / "input" / f"{k:05d}.txt"

    def trees(self, k: int) -> Path:
        return self.folder / "input" / f"{k:05d}.conllu"

    def output(self, k: int) -> Path:
        return self.folder / "done" / f"{k:05d}{suffix(self.out)}"

    def marker(self, k: int) -> Path:
        return self.folder / "done" / f"{k:05d}.json"

    def is_done(self, k: int) -> bool:
        return self.marker(k).exists()

    def pending(self) -> list[int]:
        """A network file system may hold on to the answer that a marker is not there, but not to
        a list of the folder."""
        there = set(os.listdir(self.folder / "done"))
        return [k for k in range(len(self.shards)) if self.marker(k).name not in there]


def suffix(out: str) -> str:
    for ending in SUFFIXES:
        if out.endswith(ending):
            return ending
    raise InputError(f"{out}: the name must end in {', '.join(SUFFIXES)}")


def parts_folder(out: str) -> Path:
    return Path(f"{out}.parts")


def load(folder: Path, source: str, out: str, settings: ParserSettings) -> ShardedParse:
    shards = [Shard(**shard) for shard in read_plan(folder)["shards"]]
    return ShardedParse(folder, source, out, settings, shards)


def read_plan(folder: Path) -> dict:
    return records.read_plan(folder / PLAN, f"remove {folder}")


def remove(parts: Path) -> None:
    """Remove a folder of parts, at once as far as a later run can see: this one may be killed."""
    folder = Path(os.path.realpath(parts))
    removed = temp_name(folder)
    os.rename(folder, removed)
    shutil.rmtree(removed)


def remove_rest(parts: Path) -> None:
    """Remove what a run that was killed in `remove`, or in the plan, has left of such a folder."""
    for left in leftovers(Path(os.path.realpath(parts))):
        shutil.rmtree(left, ignore_errors=True)
