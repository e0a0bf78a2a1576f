"""Parse a text in shards, and write the trees to a CoNLL-U file.

OUT.parts contains the completed shards. OUT.json records inputs, settings, and notes on
individual lines.
"""

import codecs
import contextlib
import gc
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.files.files import count_lines, open_to_write, read_lines
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.paths import refuse_unwritable
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.lines import PLAN, Answer, LineStep, Part
from fairseq_posattn.jobs.running import do_lines, remove
from fairseq_posattn.jobs.slurm import Jobs
from fairseq_posattn.jobs.step_records import StepRecord, completed_record
from fairseq_posattn.text.parsing.loading import load_parser
from fairseq_posattn.text.parsing.options import ParseRequest, ParserSettings
from fairseq_posattn.text.parsing.parsers import given_trees, parse_safely
from fairseq_posattn.trees.conllu import (
    TEXT,
    ConlluBlock,
    block,
    parse_all_columns,
    plain_line,
    read_blocks,
)
from fairseq_posattn.trees.sentence import Sentence

SUFFIXES = (".conllu.xz", ".conllu.zst", ".conllu")
SHOWN_NOTES = 20
LINES_AT_ONCE = 1000  # lines per call of the parser, which sorts them by length


def parse(request: ParseRequest) -> None:
    """Parse all remaining shards, then check and join the results.

    On Slurm, this function returns before the jobs have finished, unless `wait` is set.
    """
    text, out, wait = request.text, request.out, request.wait
    refuse_unwritable(Path(out))
    if not out.endswith(SUFFIXES):
        raise InputError(f"{out}: the name must end in {' or '.join(SUFFIXES)}")
    parts, record = Path(f"{out}.parts"), f"{out}.json"
    step = parse_step("parse", text, out, request.settings, request.trees, record)
    with locked(out, wait=wait):
        key = step.key()
        if (result := completed_record(record, key, [out])) is None:
            size = request.shard_lines
            if do_lines(step, parts, request.cluster, size, wait=wait, keep=True) is None:
                return
            result = StepRecord.read(record)
        assert result is not None
        show(result, text, out, record)
        plan = StepRecord.read(parts / PLAN)
        of_this_parse = plan and plan.key and {name: plan.key.get(name) for name in key} == key
        if not request.keep_parts and (of_this_parse or not parts.exists()):
            Jobs.of(parts / "logs").cancel_join()
            remove(parts)


def parse_step(
    name: str,
    text: str,
    out: str,
    settings: ParserSettings,
    trees: str | None = None,
    record: str | None = None,
) -> LineStep:
    """Return a line-by-line step that parses the text."""
    return LineStep(
        name,
        [text, *([trees] if trees else [])],
        [out],
        partial(parse_part, settings, trees),
        settings.describe(),
        partial(text_or_trees, text, trees),
        record,
        verb="parses",
        done="parsed",
        on_gpus=True,
    )


def text_or_trees(text: str, trees: str | None, path: str) -> Iterator[bytes]:
    """Yield the lines of the text or, if `path` is the file of trees, the given trees.

    Each tree is preceded by its line number. A byte order mark is added to the first line of
    the text, because reading the shard will remove one, even if it belongs to the text.
    """
    if path == text:
        if not count_lines(text):
            raise InputError(f"{text}: the file is empty; use a file that contains text")
        for number, line in enumerate(read_lines(text)):
            yield (b"" if number else codecs.BOM_UTF8) + line.encode() + b"\n"
        return
    found, lines = sum(1 for _ in read_blocks(path)), count_lines(text)
    if found != lines:
        raise InputError(
            f"{trees}: the file has {found} trees for {lines} lines of text; use a file with one "
            "tree for each line"
        )
    for given in read_blocks(path):
        yield (f"{given.line}\n" + "\n".join(given.lines) + "\n\n").encode()


def parse_part(settings: ParserSettings, trees: str | None, part: Part) -> Answer:
    """Parse the lines of a shard, check the output, and return notes on individual lines."""
    lines, notes = list(read_lines(part.inputs[0])), []
    with replaced_whole(part.outputs[0]) as path:
        with open_to_write(path) as packed, io.TextIOWrapper(packed, "utf-8", newline="\n") as file:
            pairs = zip(lines, parsed_lines(settings, trees, part, lines), strict=True)
            for number, (line, parsed) in enumerate(pairs, start=part.start + 1):
                if settings.no_tags:
                    parsed = replace(parsed, tags=None)
                file.write(block(line, parsed, number))
                if parsed.note:
                    notes.append([number, parsed.note])
        check_output(path, lines, part.start)
    return {"notes": notes}


def parsed_lines(
    settings: ParserSettings, trees: str | None, part: Part, lines: Sequence[str]
) -> Iterator[Sentence]:
    """Yield the tree of each line of a shard."""
    given = None
    if settings.parser == "conllu" and trees is not None:
        # the trees of the shard, with their FILE:LINE in the original file
        blocks = read_blocks(part.inputs[1])
        originals = (ConlluBlock(trees, int(one.lines[0]), one.lines[1:]) for one in blocks)
        sentences = (parse_all_columns(one, settings.several_roots) for one in originals)
        given = ((sentence.where, sentence) for sentence in sentences)
    for begin in range(0, len(lines), LINES_AT_ONCE):
        some = lines[begin : begin + LINES_AT_ONCE]

        def where(k: int, first: int = begin + 1) -> str:
            return f"{part.inputs[0]}:{first + k}"

        if given is not None:
            yield from given_trees(some, given, where)
        else:
            parser = load_parser(settings)
            with gc_paused():
                parsed = parse_safely(parser.parse, parser.words, some, where, settings.on_failure)
            yield from parsed


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the garbage collector, which would take an eighth of the parser's run time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def check_output(path: Path, lines: Sequence[str], start: int) -> None:
    """Read the trees back from the file, and check that they match the lines."""
    begin = TEXT.rstrip()
    texts = [
        next(line for line in given.lines if line.startswith(begin)).removeprefix(begin)[1:]
        for given in read_blocks(str(path))
    ]
    if texts != [plain_line(line) for line in lines]:
        raise InputError(
            f"{path}: the {len(texts)} trees in this file do not match the {len(lines)} lines "
            f"({start + 1} to {start + len(lines)} of the source); try again"
        )


def show(result: StepRecord, text: str, out: str, record: str) -> None:
    """Log the result and, the first time, the notes on individual lines."""
    notes, lines = result.answer["notes"], result.answer["lines"]
    if result.answer.get("shown"):
        on_lines = f"; {record} has notes on {len(notes)} lines" if notes else ""
        say(f"{out}: {lines} lines, {lines} trees, already parsed and checked{on_lines}")
        return
    show_notes(text, [result.answer])
    say(f"{out}: {lines} lines, {lines} trees, checked against {text}")
    replace(result, answer={**result.answer, "shown": True}).write(record)


def show_notes(text: str, answers: Sequence[Answer]) -> None:
    """Log the first notes on individual lines."""
    notes = [note for answer in answers for note in answer["notes"]]
    for number, note in notes[:SHOWN_NOTES]:
        say(f"{Path(text)}:{number}: {note}")
    if len(notes) > SHOWN_NOTES:
        say(
            f"there are {len(notes) - SHOWN_NOTES} more such lines, marked by '# note = ' in the "
            "result"
        )
