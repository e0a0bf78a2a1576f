"""posattn-train, -generate, -interactive, -validate: fairseq's commands with the plug-in loaded."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from pathlib import Path

from fairseq_posattn.io import command_line

# The processes that posattn-train starts, one for each GPU, begin by importing this module. There
# --user-dir passes over the package, which is imported by then, so the plug-in is loaded here.
if "__mp_main__" in sys.modules:
    import_module("fairseq_posattn.plugin")


def run(program: str) -> None:
    """fairseq's program, whose errors end in one line."""
    command_line.run(lambda: run_fairseq(program))


def run_fairseq(program: str) -> None:
    """Run fairseq's program with the plug-in; --user-dir names it where the user does not."""
    if not any(argument.split("=")[0] == "--user-dir" for argument in sys.argv[1:]):
        sys.argv += ["--user-dir", str(Path(__file__).parents[1])]
    module = import_module(f"fairseq_cli.{program}")
    import_module("fairseq_posattn.plugin")  # --user-dir passes over what is imported already
    log_to_stdout(program)
    module.cli_main()


def log_to_stdout(program: str) -> None:
    """Set up logging as fairseq's programs mean to: a module that they import before they do so has
    set it up to stderr, and the log that a user keeps would lack its results."""
    for handler in list(logging.root.handlers):
        logging.root.removeHandler(handler)
    if program != "generate":  # which does it later, for it may log to a file of --results-path
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=os.environ.get("LOGLEVEL", "INFO").upper(),
            stream=sys.stdout,
        )


def train() -> None:
    run("train")


def generate() -> None:
    run("generate")


def interactive() -> None:
    run("interactive")


def validate() -> None:
    run("validate")
