"""A parser in a process of its own: it works while the model translates, and no fork can hurt it.

python -m fairseq_posattn.parsing.live      # talks with LiveParser through pipes
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from fairseq_posattn.files import InputError
from fairseq_posattn.parsing.parsed import ParsedLine
from fairseq_posattn.parsing.parsers import ParserSettings, load_parser, parse_safely


class LiveParser:
    """Starts when it is first asked; ends with the program."""

    def __init__(self, settings: ParserSettings):
        self.settings = settings
        self.process: subprocess.Popen | None = None
        self.owner: int | None = None
        self.one_at_a_time = threading.Lock()

    def tokenize(self, lines: Sequence[str]) -> list[ParsedLine]:
        return self.ask("tokenize", list(lines))

    def parse(self, lines_of_words: Sequence[ParsedLine]) -> list[ParsedLine]:
        return self.ask("parse", list(lines_of_words))

    def ask(self, what: str, lines: list):
        if not lines:
            return []
        with self.one_at_a_time:
            try:
                self.start()
                pickle.dump((what, lines), self.process.stdin)
                self.process.stdin.flush()
                answer = pickle.load(self.process.stdout)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                raise InputError(
                    f"the parser's process was killed (exit code {self.stop(10)}): out of memory?"
                ) from None
            except BaseException:  # interrupted: its answer must not pass for that to the next
                if self.process is not None:
                    self.stop()
                raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self) -> None:
        if self.process is not None and self.owner == os.getpid():
            return
        self.process, self.owner = None, os.getpid()  # a fork has a parser of its own
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairseq_posattn.parsing.live"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        pickle.dump(self.settings, self.process.stdin)
        self.process.stdin.flush()

    def stop(self, seconds: float = 0) -> int:
        """Its exit code; it has some time to end by itself."""
        process, self.process = self.process, None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        process.wait()
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        return process.returncode


class ParsesWords:
    """Lines that are tokenised already, for parse_safely."""

    def __init__(self, parser):
        self.parse = parser.parse_words

    def words(self, line: ParsedLine) -> ParsedLine:
        return line


def answer(settings: ParserSettings, what: str, lines: list) -> list[ParsedLine]:
    parser = load_parser(settings)
    if what == "tokenize":
        return parser.tokenize(lines)
    return parse_safely(
        ParsesWords(parser), lines, lambda k: f"sentence {k + 1}", settings.on_failure
    )


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keyboard ends the program, and that ends us
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply
    with contextlib.suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        settings = pickle.load(sys.stdin.buffer)
        while True:
            what, lines = pickle.load(sys.stdin.buffer)
            try:
                reply = answer(settings, what, lines)
            except Exception as error:
                reply = InputError(str(error))
            pickle.dump(reply, replies)
            replies.flush()
    os._exit(0)  # the program has ended


if __name__ == "__main__":
    serve()
