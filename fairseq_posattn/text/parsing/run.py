"""Run a parse from a text to its CoNLL-U file."""

from __future__ import annotations

from pathlib import Path

from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.io.progress import say
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.parsing.join import join, join_once
from fairseq_posattn.text.parsing.plan import plan
from fairseq_posattn.text.parsing.results import Result, finished, is_made_by, place
from fairseq_posattn.text.parsing.sharded_parse import ShardedParse, parts_folder
from fairseq_posattn.text.parsing.worker import do_shard
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.running import do, wait_for_slurm
from fairseq_posattn.work.slurm_jobs import Jobs
from fairseq_posattn.work.work import Task, remove, remove_rest

SHOWN_NOTES = 20


def parse(
    text: str,
    out: str,
    settings: ParserSettings,
    cluster: Cluster,
    shard_lines: int = 2000,
    trees: str | None = None,
    keep_parts: bool = False,
    wait: bool = False,
) -> None:
    """Parse what is not parsed yet; when everything is, join and check it.

    Slurm goes on with the work after this function has returned, unless `wait` is set.
    """

    refuse_unwritable(Path(out))

    def attempt() -> ShardedParse | None:
        """Return the parse that Slurm works on, or None when the result is there."""
        with locked(out, wait=wait):
            remove_rest(parts_folder(out))
            result = finished(text, out, settings, trees)
            if result is None:
                work = plan(text, out, settings, shard_lines, trees)
                if work.pending() and not do(task_of(work), cluster, wait):
                    return work
                result = join(work)
            show(result, text, out)
            if is_made_by(result, parts_folder(out)):
                Jobs.of(parts_folder(out) / "logs").cancel_join()
                if not keep_parts:
                    remove(parts_folder(out))
        return None

    work = attempt()
    if work and wait:
        wait_for_slurm(task_of(work))
        attempt()


def task_of(work: ShardedParse) -> Task:
    """Return what the executors do for a parse."""
    return Task("parse", "parses", "parsed", work, do_shard, join_once, on_gpus=True)


def discard(out: str) -> None:
    """Remove the parts of a parse that will not go on, unless Slurm is working on them."""
    parts = parts_folder(out)
    if parts.exists():
        with locked(out):
            Jobs.of(parts / "logs").refuse_if_queued("they parse with other choices")
            remove(parts)


def show(result: Result, text: str, out: str) -> None:
    """Say what was parsed, with the notes on single lines the first time."""
    counts = f"{out}: {result.lines} lines, {result.lines} trees"
    if result.shown:
        notes = f"; {place(out)} has notes on {len(result.notes)} lines" if result.notes else ""
        say(f"{counts}, parsed and checked before{notes}")
        return
    report(result.notes, text)
    say(f"{counts}, checked against {text}")
    result.save_as_shown(out)


def report(notes: list, text: str) -> None:
    """Print the first notes on lines of the text."""
    for number, note in notes[:SHOWN_NOTES]:
        say(f"{Path(text)}:{number}: {note}")
    if len(notes) > SHOWN_NOTES:
        say(
            f"there are {len(notes) - SHOWN_NOTES} more such lines, which the result marks by "
            "'# note = '"
        )
