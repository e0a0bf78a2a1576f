"""Parse one shard, in a process of this machine or in a task of a cluster."""

from __future__ import annotations

import contextlib
import gc
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import open_to_write, read_lines
from fairseq_posattn.text.parsing.loading import load_parser
from fairseq_posattn.text.parsing.parsers import given_trees, parse_safely
from fairseq_posattn.text.parsing.records import Shard, checksum
from fairseq_posattn.text.parsing.sharded_parse import ShardedParse, read_plan
from fairseq_posattn.trees.conllu import TEXT, ConlluBlock, block, parse_all_columns, read_blocks
from fairseq_posattn.trees.sentence import Sentence

LINES_AT_ONCE = 1000  # the parser gets this many lines together, and sorts them by length


def do_shard(work: ShardedParse, k: int) -> None:
    """Parse one shard, unless it is done, and check what was written before it counts as done."""
    if work.is_done(k):
        return
    shard = work.shards[k]
    lines = list(read_lines(work.input(k)))
    if len(lines) != shard.lines or checksum(lines) != shard.sha256:
        raise InputError(
            f"{work.input(k)}: the lines are not those that were cut for this shard; "
            f"remove {work.folder} and begin anew"
        )
    check_trees(work, k)
    notes = []
    with replaced_whole(work.output(k)) as partial:
        with _packed(partial) as file:
            for number, (line, parsed) in enumerate(_parsed(work, k, lines), start=shard.start + 1):
                if work.settings.no_tags:
                    parsed = replace(parsed, tags=None)
                file.write(block(line, parsed, number))
                if parsed.note:
                    notes.append([number, parsed.note])
        check_output(partial, shard)
    about = {**fingerprint(str(work.output(k))), "lines": shard.lines, "notes": notes}
    with written_whole(work.marker(k)) as file:
        json.dump(about, file)


def check_trees(work: ShardedParse, k: int) -> None:
    """Refuse given trees that are not the ones that were cut for the shard."""
    expected = work.shards[k].trees_sha256
    if expected is not None and fingerprint(str(work.trees(k)))["sha256"] != expected:
        raise InputError(
            f"{work.trees(k)}: the trees are not those that were cut for this shard; "
            f"remove {work.folder} and begin anew"
        )


def _parsed(work: ShardedParse, k: int, lines: list[str]) -> Iterator:
    """Yield each line with its parse."""
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
            with gc_paused():
                parsed = parse_safely(parser, part, where, work.settings.on_failure)
        yield from zip(part, parsed, strict=True)


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector, which would take an eighth of a parser's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


@contextlib.contextmanager
def _packed(path: Path) -> Iterator[TextIO]:
    with open_to_write(path) as file, io.TextIOWrapper(file, "utf-8", newline="\n") as text:
        yield text


def check_output(path: Path, shard: Shard) -> None:
    """Read the trees back from the file, and check that they are those of the shard's lines."""
    texts = [
        next(line for line in given.lines if line.startswith(TEXT.rstrip()))
        for given in read_blocks(str(path))
    ]
    lines = [text.removeprefix(TEXT) if text.startswith(TEXT) else "" for text in texts]
    if len(lines) != shard.lines or checksum(lines) != shard.sha256:
        raise InputError(
            f"{path}: the file has {len(lines)} trees, but not those of its {shard.lines} lines "
            f"({shard.start + 1} to {shard.start + shard.lines} of the source); try again"
        )


def read_given(path: Path, trees: str, several_roots: str) -> Iterator[tuple[str, Sentence]]:
    """Yield the given trees of a shard, each after its place in the file that it came from."""
    for given in read_blocks(str(path)):
        sentence = parse_all_columns(
            ConlluBlock(trees, int(given.lines[0]), given.lines[1:]), several_roots
        )
        yield sentence.where, sentence
