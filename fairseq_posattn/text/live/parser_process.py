"""Run a parser in a separate process, in parallel with the translation model.

Forks of the main program do not affect this process. LiveParser starts this module as a subprocess
and communicates with it through pipes:

    python -m fairseq_posattn.text.live.parser_process
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parsing.loading import load_parser
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.parsers import parse_safely
from fairseq_posattn.trees.sentence import Sentence


class LiveParser:
    """A parser in a subprocess, which is started by the first request and ends with the program."""

    def __init__(self, settings: ParserSettings):
        self.settings = settings
        self.process: subprocess.Popen | None = None
        self.owner: int | None = None
        self.lock = threading.Lock()

    def tokenize(self, lines: Sequence[str]) -> list[Sentence]:
        return self.ask("tokenize", list(lines))

    def parse(self, lines_of_words: Sequence[Sentence]) -> list[Sentence]:
        return self.ask("parse", list(lines_of_words))

    def ask(self, what: str, lines: list) -> list[Sentence]:
        """Send a request to the process and return its answer; raise the error that it reports."""
        if not lines:
            return []
        with self.lock:
            try:
                process = self.start()
                send((what, lines), process)
                answer = pickle.load(pipe(process.stdout))
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                raise InputError(
                    f"the parser's process terminated (exit code {self.stop(10)}), perhaps because "
                    "memory ran out; free some memory, or translate smaller batches"
                ) from None
            except BaseException:  # the next request must not read the answer to this one
                if self.process is not None:
                    self.stop()
                raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self) -> subprocess.Popen[bytes]:
        """Return the subprocess, and start it if necessary."""
        if self.process is not None and self.owner == os.getpid():
            return self.process
        self.process, self.owner = None, os.getpid()  # a forked process starts its own parser
        process = self.process = subprocess.Popen(
            [sys.executable, "-m", "fairseq_posattn.text.live.parser_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        send(self.settings, process)
        return process

    def stop(self, seconds: float = 0) -> int | None:
        """Stop the subprocess and return its exit code, or None if it was never started.

        seconds: how long to wait for the subprocess to exit before killing it.
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
    """Return a pipe that is not None, to satisfy the type checker."""
    assert end is not None
    return end


def send(message: object, process: subprocess.Popen[bytes]) -> None:
    stdin = pipe(process.stdin)
    pickle.dump(message, stdin)
    stdin.flush()


def answer(settings: ParserSettings, what: str, lines: list) -> list[Sentence]:
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
    """Answer requests on standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, the main program ends this process
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints must not mix with the replies
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
