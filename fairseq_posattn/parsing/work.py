"""The parts of a large parse: a folder beside the result, which outlives any kill.

    OUT.parts/plan.json            the source (lines, checksum), the parser, the shards
    OUT.parts/input/00000.txt      a shard: some lines of the source
    OUT.parts/done/00000.conllu.xz their trees
    OUT.parts/done/00000.json      written last: what is there is done

A shard is done by one process, from its first line to its last; what appears under a final name is
complete. So the joined result does not depend on who did what, or how often it was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import io
import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

from fairseq_posattn.files import (
    InputError,
    folder_written_whole,
    full_disk_named,
    open_to_write,
    partial_name,
    read_json,
    read_lines,
    replaced_whole,
)
from fairseq_posattn.parsing.parsed import TEXT, ParsedLine, block, of_block, plain_line
from fairseq_posattn.parsing.parsers import (
    ParserSettings,
    given_trees,
    load_parser,
    parse_safely,
)
from fairseq_posattn.trees.conllu import Block, read_blocks

PLAN = "plan.json"
SUBMITTED = "executor.pik"  # datatrove's, for Slurm
SUFFIXES = (".conllu.xz", ".conllu.zst", ".conllu")
LINES_AT_ONCE = 1000  # what the parser sees together: it sorts them by length


@dataclass(frozen=True)
class Shard:
    lines: int
    start: int  # lines before it
    sha256: str  # of its lines


@dataclass(frozen=True)
class Work:
    """A parse of one file, cut into shards."""

    folder: Path
    source: str
    out: str
    settings: ParserSettings
    shards: list[Shard]

    @property
    def lines(self) -> int:
        return sum(shard.lines for shard in self.shards)

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
        return [k for k in range(len(self.shards)) if not self.is_done(k)]


def suffix(out: str) -> str:
    for ending in SUFFIXES:
        if out.endswith(ending):
            return ending
    raise InputError(f"{out}: the name must end in {', '.join(SUFFIXES)}")


def parts_folder(out: str) -> Path:
    return Path(f"{out}.parts")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One run at a time; the lock ends with its process."""
    path = folder.with_name(folder.name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        if not _is_ours(file, path):
            raise InputError(f"{folder}: another run is at work here")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _is_ours(file: TextIO, path: Path) -> bool:
    """Whether the lock could be taken, and is not one that another run has just removed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def plan(
    source: str, out: str, settings: ParserSettings, shard_lines: int, trees: str | None = None
) -> Work:
    """The work as it was planned before, or a new plan."""
    folder = parts_folder(out)
    suffix(out)
    choices = {
        "source": fingerprint(source),
        "parser": settings.describe(),
        "shard_lines": shard_lines,
        "trees": {"path": trees, **fingerprint(trees)} if trees else None,
    }
    if (folder / PLAN).exists():
        work = load(folder, source, out, settings)
        difference = differs(folder, choices)
        if difference is None:
            return work
        if is_begun(work):
            raise InputError(
                f"{folder}: made for another {difference}; "
                "run the same command as before, or remove the folder and begin anew"
            )
        remove(work)
    with folder_written_whole(folder) as partial:
        for name in ("input", "done", "logs"):
            (partial / name).mkdir()
        shards = list(cut_source(source, partial / "input", shard_lines))
        if trees:
            cut_trees(trees, partial / "input", shards)
        about = {**choices, "shards": [asdict(s) for s in shards]}
        (partial / PLAN).write_text(json.dumps(about, indent=1))
    return load(folder, source, out, settings)


def differs(folder: Path, choices: dict) -> str | None:
    """In what the choices are not those of the plan."""
    found = read_plan(folder)
    return next(
        (
            f"{name}: {_difference(found.get(name), now)}"
            for name, now in choices.items()
            if found.get(name) != now
        ),
        None,
    )


def is_begun(work: Work) -> bool:
    """Whether something is done, or Slurm may be doing it."""
    return len(work.pending()) < len(work.shards) or (work.folder / "logs" / SUBMITTED).exists()


def _difference(before, now) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        changed = [key for key in now if before.get(key) != now[key]]
        return ", ".join(f"{key} was {before.get(key)}, is {now[key]}" for key in changed)
    return f"was {before}, is {now}"


def load(folder: Path, source: str, out: str, settings: ParserSettings) -> Work:
    shards = [Shard(**shard) for shard in read_plan(folder)["shards"]]
    return Work(folder, source, out, settings, shards)


def read_plan(folder: Path) -> dict:
    return read_json(folder / PLAN, f"remove {folder}")


def fingerprint(path: str) -> dict:
    """What a file is known by."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return {"bytes": os.path.getsize(path), "sha256": digest.hexdigest()}


def cut_source(source: str, folder: Path, shard_lines: int) -> Iterator[Shard]:
    """Each file has a byte order mark of its own, so that one that begins a line is not lost."""
    lines = read_lines(source)
    start = 0
    for k in range(10**9):
        part = list(islice(lines, shard_lines))
        if not part:
            break
        with open(folder / f"{k:05d}.txt", "w", encoding="utf-8-sig", newline="\n") as file:
            file.writelines(line + "\n" for line in part)
        yield Shard(len(part), start, checksum(part))
        start += len(part)
    if not start:
        raise InputError(f"{source}: the file is empty")


def cut_trees(trees: str, folder: Path, shards: list[Shard]) -> None:
    """As many trees for each shard as it has lines."""
    blocks = read_blocks(trees)
    found = 0
    for k, shard in enumerate(shards):
        with open(folder / f"{k:05d}.conllu", "w", encoding="utf-8", newline="\n") as file:
            for given in islice(blocks, shard.lines):
                file.write(f"{given.line}\n" + "\n".join(given.lines) + "\n\n")
                found += 1
    found += sum(1 for _ in blocks)
    lines = sum(shard.lines for shard in shards)
    if found != lines:
        raise InputError(f"{trees}: {found} trees for {lines} lines of text; there must be as many")


def read_given(path: Path, trees: str, several_roots: str) -> Iterator[tuple[str, ParsedLine]]:
    """The trees of a shard, each with its place in the file that it came from."""
    for given in read_blocks(str(path)):
        block = Block(trees, int(given.lines[0]), given.lines[1:])
        yield f"{trees}:{block.line}", of_block(block, several_roots)


def checksum(lines: list[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(plain_line(line).encode() + b"\n")
    return digest.hexdigest()


def do_shard(work: Work, k: int) -> None:
    """Parse one shard, unless that is done; look at what was written before it counts."""
    if work.is_done(k):
        return
    shard = work.shards[k]
    lines = list(read_lines(work.input(k)))
    if len(lines) != shard.lines or checksum(lines) != shard.sha256:
        raise InputError(f"{work.input(k)}: not the lines that were cut; remove {work.folder}")
    notes = []
    partial = own_name(work.output(k))
    with _packed(partial) as file:
        for number, (line, parsed) in enumerate(_parsed(work, k, lines), start=shard.start + 1):
            file.write(block(line, parsed, number))
            if parsed.note:
                notes.append([number, parsed.note])
    check_output(partial, shard)
    os.replace(partial, work.output(k))
    about = {**fingerprint(str(work.output(k))), "lines": shard.lines, "notes": notes}
    marker = own_name(work.marker(k))
    marker.write_text(json.dumps(about))
    os.replace(marker, work.marker(k))


def own_name(path: Path) -> Path:
    """For a file that grows; another process, perhaps on another machine, may be at it, too."""
    return path.with_name(f".{socket.gethostname()}.{os.getpid()}.{path.name}")


def _parsed(work: Work, k: int, lines: list[str]) -> Iterator:
    """Each line with its parse."""
    given = None
    if work.settings.parser == "conllu":
        trees = read_plan(work.folder)["trees"]["path"]
        given = read_given(work.trees(k), trees, work.settings.several_roots)
    for begin in range(0, len(lines), LINES_AT_ONCE):
        part = lines[begin : begin + LINES_AT_ONCE]
        first = work.shards[k].start + begin + 1

        def where(j: int, first: int = first) -> str:
            return f"{work.source}:{first + j}"

        if given is not None:
            parsed = given_trees(part, given, where)
        else:
            parser = load_parser(work.settings)
            with garbage_left():
                parsed = parse_safely(parser, part, where, work.settings.on_failure)
        yield from zip(part, parsed, strict=True)


@contextlib.contextmanager
def garbage_left() -> Iterator[None]:
    """A parser makes so many small objects that looking for cycles takes an eighth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


@contextlib.contextmanager
def _packed(path: Path) -> Iterator[TextIO]:
    try:
        with full_disk_named(path.parent):
            with open_to_write(path) as file, io.TextIOWrapper(file, "utf-8", newline="\n") as text:
                yield text
            with open(path, "rb") as written:
                os.fsync(written.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def check_output(path: Path, shard: Shard) -> None:
    """The trees are those of the shard's lines, read back from the file."""
    texts = [
        next(line for line in given.lines if line.startswith(TEXT.rstrip()))
        for given in read_blocks(str(path))
    ]
    lines = [text.removeprefix(TEXT) if text.startswith(TEXT) else "" for text in texts]
    if len(lines) != shard.lines or checksum(lines) != shard.sha256:
        raise InputError(
            f"{path}: {len(lines)} trees, not those of its {shard.lines} lines "
            f"({shard.start + 1} to {shard.start + shard.lines} of the source)"
        )


def join(work: Work) -> list[tuple[int, str]]:
    """Write the result from all shards, each checked; the notes with their line numbers."""
    if fingerprint(work.source) != read_plan(work.folder)["source"]:
        raise InputError(f"{work.source}: changed while it was parsed; remove {work.folder}")
    notes = notes_of_shards(work)
    with replaced_whole(work.out) as partial, open(partial, "wb") as joined:
        for k in range(len(work.shards)):  # compressed streams may follow each other
            with open(work.output(k), "rb") as file:
                shutil.copyfileobj(file, joined, 1 << 20)
    return notes


def notes_of_shards(work: Work) -> list:
    """The notes of all shards, which must be as they were written; others count as not done."""
    notes, damaged = [], []
    for k in range(len(work.shards)):
        try:
            notes += notes_of_shard(work, k)
        except (OSError, ValueError, KeyError):
            damaged.append(k)
    for k in damaged:
        work.marker(k).unlink(missing_ok=True)
    if damaged:
        others = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise InputError(
            f"{work.output(damaged[0])}{others}: missing, or damaged since it was written; "
            "run the same command again, which parses these lines anew"
        )
    return notes


def notes_of_shard(work: Work, k: int) -> list:
    about = json.loads(work.marker(k).read_text())
    found = fingerprint(str(work.output(k)))
    if found != {key: about[key] for key in found} or about["lines"] != work.shards[k].lines:
        raise ValueError("not the file that was written")
    return about["notes"]


def remove(work: Work) -> None:
    """At once, as far as a later run can see: it may be killed meanwhile."""
    folder = Path(os.path.realpath(work.folder))
    os.rename(folder, partial_name(folder))
    shutil.rmtree(partial_name(folder))
