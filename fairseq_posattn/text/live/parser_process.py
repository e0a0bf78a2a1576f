"""Run a parser in a process of its own, so that it works while the model translates.

A fork of the program cannot damage it there. LiveParser starts the process and talks with it
through pipes:

    python -m fairseq_posattn.text.live.parser_process
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.parsers import parse_safely
from fairseq_posattn.text.parsing.stanza_parser import load_parser
from fairseq_posattn.trees.sentence import Sentence


class Turns:
    """One thread is at work at a time; one that gives way waits until no other one wants a turn."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.taken = False
        self.waiting = 0  # threads that give no way
        self.own = threading.local()

    @contextlib.contextmanager
    def giving_way(self) -> Iterator[None]:
        """Let this thread give way in the turns that it takes in the `with` block."""
        self.own.gives_way = True
        try:
            yield
        finally:
            self.own.gives_way = False

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Take a turn, which ends with the `with` block."""
        gives_way = getattr(self.own, "gives_way", False)
        with self.changed:
            self.waiting += not gives_way
            self.changed.notify_all()
            try:
                self.changed.wait_for(lambda: not self.taken and not (gives_way and self.waiting))
            finally:
                self.waiting -= not gives_way
            self.taken = True
        try:
            yield
        finally:
            with self.changed:
                self.taken = False
                self.changed.notify_all()


class LiveParser:
    """This parser starts its process at the first question; the process ends with the program."""

    def __init__(self, settings: ParserSettings):
        self.settings = settings
        self.process: subprocess.Popen | None = None
        self.owner: int | None = None
        self.turns = Turns()

    def tokenize(self, lines: Sequence[str]) -> list[Sentence]:
        return self.ask("tokenize", list(lines))

    def parse(self, lines_of_words: Sequence[Sentence]) -> list[Sentence]:
        return self.ask("parse", list(lines_of_words))

    def ask(self, what: str, lines: list) -> list[Sentence]:
        """Return the answer of the process; an error that it had is raised here."""
        if not lines:
            return []
        with self.turns.one():
            try:
                process = self.start()
                send((what, lines), process)
                answer = pickle.load(pipe(process.stdout))
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                raise InputError(
                    f"the process of the parser was killed (exit code {self.stop(10)}), perhaps "
                    "for lack of memory; free some, or translate smaller batches"
                ) from None
            except BaseException:  # the next question must not get the answer to this one
                if self.process is not None:
                    self.stop()
                raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started if it does not run yet."""
        if self.process is not None and self.owner == os.getpid():
            return self.process
        self.process, self.owner = None, os.getpid()  # a fork gets a parser of its own
        process = self.process = subprocess.Popen(
            [sys.executable, "-m", "fairseq_posattn.text.live.parser_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        send(self.settings, process)
        return process

    def stop(self, seconds: float = 0) -> int | None:
        """Stop the process and return its exit code, or None if it never started.

        It has some seconds to end by itself.
        """
        process, self.process = self.process, None
        if process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        process.wait()
        pipe(process.stdout).close()
        with contextlib.suppress(BrokenPipeError):
            pipe(process.stdin).close()
        return process.returncode


def pipe(end: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe; the types do not know that the process was started with one."""
    assert end is not None
    return end


def send(message: object, process: subprocess.Popen[bytes]) -> None:
    """Write a message to the process, which reads it at once."""
    stdin = pipe(process.stdin)
    pickle.dump(message, stdin)
    stdin.flush()


def answer(settings: ParserSettings, what: str, lines: list) -> list[Sentence]:
    """Return the words of raw lines, or the trees of tokenised lines."""
    parser = load_parser(settings)
    if what == "tokenize":
        return parser.tokenize(lines)
    return parse_safely(
        parser.parse_words,
        lambda line: line,
        lines,
        lambda k: f"sentence {k + 1}",
        settings.on_failure,
    )


def serve() -> None:
    """Answer the questions that come through the pipe until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program, not the keyboard, ends this process
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not disturb the replies
    with contextlib.suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        settings = pickle.load(sys.stdin.buffer)
        while True:
            what, lines = pickle.load(sys.stdin.buffer)
            reply: list[Sentence] | InputError
            try:
                reply = answer(settings, what, lines)
            except Exception as error:
                reply = InputError(str(error))
            pickle.dump(reply, replies)
            replies.flush()
    os._exit(0)  # the program has ended


if __name__ == "__main__":
    serve()
