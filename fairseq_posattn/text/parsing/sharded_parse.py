"""Keep the parts of a large parse in a folder beside the result, so that no kill loses them.

    OUT.parts/plan.json            says what the source, the parser and the shards are
    OUT.parts/input/00000.txt      holds the lines of a shard
    OUT.parts/done/00000.conllu.xz holds their trees
    OUT.parts/done/00000.json      is written last and says that the shard is done

One process parses a shard from its first line to its last, and a file that has its final name is
complete. So the joined result does not depend on which process parsed what, or how often one was
killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.parsing import records
from fairseq_posattn.text.parsing.records import Shard
from fairseq_posattn.work.work import PLAN, ShardedWork

SUFFIXES = (".conllu.xz", ".conllu.zst", ".conllu")


@dataclass(frozen=True)
class ShardedParse(ShardedWork):
    """A sharded parse is the parse of one file that is cut into shards."""

    folder: Path
    source: str
    out: str
    settings: ParserSettings
    shards: list[Shard]

    def input(self, k: int) -> Path:
        """Return the file with the lines of a shard."""
        return self.folder / "input" / f"{k:05d}.txt"

    def trees(self, k: int) -> Path:
        """Return the file with the given trees of a shard."""
        return self.folder / "input" / f"{k:05d}.conllu"

    def output(self, k: int) -> Path:
        """Return the file with the result of a shard."""
        return self.folder / "done" / f"{k:05d}{suffix(self.out)}"


def suffix(out: str) -> str:
    """Return the ending of a result's name, or refuse a name that ends otherwise."""
    for ending in SUFFIXES:
        if out.endswith(ending):
            return ending
    raise InputError(f"{out}: the name must end in {', '.join(SUFFIXES)}")


def parts_folder(out: str) -> Path:
    """Return the folder of the parts of a result."""
    return Path(f"{out}.parts")


def load(folder: Path, source: str, out: str, settings: ParserSettings) -> ShardedParse:
    """Load the parse that is planned in a folder of parts."""
    shards = [Shard(**shard) for shard in read_plan(folder)["shards"]]
    return ShardedParse(folder, source, out, settings, shards)


def read_plan(folder: Path) -> dict:
    """Read the plan in a folder of parts."""
    return records.read_plan(folder / PLAN, f"remove {folder}")
