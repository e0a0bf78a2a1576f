"""parse.py, killed at any moment: the same command ends with the result of an undisturbed run."""

import fcntl
import os
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import leftovers
from fairseq_posattn.files.lock import locked
from fairseq_posattn.jobs import running
from fairseq_posattn.jobs.lines import LineWork
from fairseq_posattn.text.parsing import run as whole_run
from fairseq_posattn.text.parsing.options import ParseRequest, ParserSettings
from support.background import Parse
from support.commands import step
from support.killed import killed_at
from support.parse_toys import parse_here, planned_parse, shards_done_here, toy_texts
from support.processes import ignores

SHARD = 125
GIVEN = ParserSettings("conllu")


class Corpus(NamedTuple):
    """A text with trees made elsewhere, and what parse.py makes of it undisturbed."""

    text: Path
    trees: Path
    result: bytes

    def options(self, out: Path, *more) -> list:
        given = [self.text, "--parser", "conllu", "--trees", self.trees, "--out", out]
        return [*given, "--shard-lines", SHARD, "--workers", 2, *more]

    def parse_rest(self, out: Path, settings: ParserSettings = GIVEN) -> None:
        """As the command with these options would."""
        parse_here(self.text, out, settings, SHARD, self.trees)

    def plan(self, out: Path, settings: ParserSettings = GIVEN) -> LineWork:
        return planned_parse(self.text, out, settings, SHARD, self.trees)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus"), 5000)


def make_corpus(folder: Path, lines: int) -> Corpus:
    text, trees = toy_texts(folder, lines)
    parse_here(text, folder / "out.conllu", GIVEN, SHARD, trees)
    return Corpus(text, trees, (folder / "out.conllu").read_bytes())


def folder_of(out: Path) -> Path:
    return Path(f"{out}.parts")


def done(out: Path) -> dict[str, int]:
    """The files of finished shards, and when they were written."""
    folder = folder_of(out) / "done"
    markers = [path for path in folder.glob("*.json") if path.name[0] != "."]
    files = [path for marker in markers for path in (marker, *marker.with_suffix("").iterdir())]
    return {f"{path.parent.name}/{path.name}": path.stat().st_mtime_ns for path in files}


def shards_done(out: Path) -> int:
    return len(done(out)) // 2


def assert_kept(before: dict[str, int], out: Path) -> None:
    """Finished shards were not done again."""
    after = done(out)
    assert {name: after.get(name) for name in before} == before


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(pid, number)


# Kills of running processes.


@pytest.mark.long(ci=True)
def test_killed_again_and_again(corpus, tmp_path):
    out, rng, before = tmp_path / "out.conllu", random.Random("kills"), {}
    options = corpus.options(out, "--keep-parts")
    for kill in range(3):
        with Parse(*options) as parse:
            if kill == 0:  # while the source is cut, or soon after
                parse.wait_until(lambda: folder_of(out).exists() or leftovers(folder_of(out)))
            else:
                more = shards_done(out) + rng.randrange(1, 12)
                parse.wait_until(lambda: shards_done(out) >= more)  # noqa: B023
                time.sleep(rng.random() / 20)
                parse.look()
            before |= done(out)
            os.kill(parse.process.pid, signal.SIGKILL)
            assert parse.wait() == -signal.SIGKILL
            assert parse.left_behind() == []
        assert not out.exists()
        assert_kept(before, out)
    assert 4 <= len(before) < 80
    printed = step("parse", *options).stdout
    assert "of 5,000 lines were parsed before" in printed
    assert out.read_bytes() == corpus.result
    assert_kept(before, out)


@pytest.mark.long
def test_a_killed_worker_does_not_stop_the_run(corpus, tmp_path):
    out = tmp_path / "out.conllu"
    with Parse(*corpus.options(out, "--keep-parts")) as parse:
        parse.wait_until(lambda: shards_done(out) >= 3)
        before = done(out)
        parse.kill_worker()
        assert parse.wait() == 0, parse.printed()
        assert parse.left_behind() == []
        assert "a worker was killed; retrying the unfinished shards" in parse.printed()
    assert out.read_bytes() == corpus.result
    assert_kept(before, out)


def test_workers_that_are_always_killed_end_the_run(corpus, tmp_path):
    """As where each worker is out of memory."""
    out = tmp_path / "out.conllu"
    with Parse(*corpus.options(out)) as parse:
        while parse.process.poll() is None:
            send(parse.workers(), signal.SIGKILL)
            time.sleep(0.005)
        assert parse.wait() == 1
        error = parse.printed().splitlines()[-1]
        assert error.startswith("error: workers were killed three times in a row")
        assert "--max-words" in error
        assert "Traceback" not in parse.printed()
    assert not out.exists()


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_stopped_by_a_signal(corpus, tmp_path, number, code):
    """At once, even if a worker would take long: these would take for ever."""
    out = tmp_path / "out.conllu"
    with Parse(*corpus.options(out)) as parse:
        workers = parse.wait_until(parse.workers)
        assert all(ignores(pid, signal.SIGINT) for pid in workers)  # they leave it to the parent
        parse.wait_until(lambda: shards_done(out) >= 2)
        before = done(out)
        send(parse.workers(), signal.SIGSTOP)
        parse.look()
        os.killpg(parse.process.pid, number)
        assert parse.wait() == code
        assert parse.left_behind() == []
        assert "Traceback" not in parse.printed()
    assert {path.name for path in tmp_path.iterdir()} <= {"out.conllu.parts", "out.conllu.lock"}
    assert_kept(before, out)
    corpus.parse_rest(out)
    assert out.read_bytes() == corpus.result


# A kill before each step that changes the disk.


def run_whole(corpus: Corpus, out: Path) -> None:
    """What parse.py does, with its shards done by this process."""
    paths = {"text": str(corpus.text), "out": str(out), "trees": str(corpus.trees)}
    whole_run.parse(ParseRequest(**paths, settings=GIVEN, shard_lines=SHARD))


@pytest.mark.long(ci=True)
def test_killed_at_every_step(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(running, "run", shards_done_here)
    corpus = make_corpus(tmp_path_factory.mktemp("small"), 3 * SHARD)
    number = 1
    while True:
        out = tmp_path_factory.mktemp("killed") / "out.conllu"
        killed = killed_at(number, run_whole, corpus, out)
        if out.exists():
            assert out.read_bytes() == corpus.result
        before = done(out)
        run_whole(corpus, out)
        assert out.read_bytes() == corpus.result, number
        left = sorted(path.name for path in out.parent.iterdir())
        assert left == ["out.conllu", "out.conllu.json"], number
        if not killed:
            break
        number += 1
        assert len(before) in range(0, 7, 2)
    assert number > 30


# Two runs, other inputs, other options.


@pytest.mark.long
def test_a_second_run_is_refused(corpus, tmp_path):
    out = tmp_path / "out.conllu"
    with Parse(*corpus.options(out)) as parse:
        parse.wait_until(lambda: shards_done(out) >= 1)
        workers = parse.workers()
        send(workers, signal.SIGSTOP)
        second = step("parse", *corpus.options(out), check=False)
        send(workers, signal.SIGCONT)
        assert second.returncode == 1
        holder = f"process {parse.process.pid} on {socket.gethostname()}"
        assert second.stdout == (
            f"error: {out}: another run is writing here ({holder}); wait until it ends, or "
            "stop it\n"
        )
        assert parse.wait() == 0, parse.printed()
    assert out.read_bytes() == corpus.result


def test_a_lock_that_the_run_before_has_just_removed(tmp_path, monkeypatch):
    """Whoever opened it too early takes the one that others see."""
    take, lock = fcntl.flock, tmp_path / "parts.lock"

    def take_late(file, operation):
        monkeypatch.undo()
        lock.unlink()
        take(file, operation)

    monkeypatch.setattr(fcntl, "flock", take_late)
    with locked(tmp_path / "parts"):
        assert lock.exists()
        with pytest.raises(InputError, match="another run"), locked(tmp_path / "parts"):
            pytest.fail("two runs")
