"""Run fairseq's programs with the plug-in: posattn-train, -generate, -interactive and -validate."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

from fairseq_posattn.io import command_line

# posattn-train starts one process for each GPU, which imports this module first. The package is
# then imported already, so that --user-dir would skip it, and the plug-in is loaded here.
if "__mp_main__" in sys.modules:
    import_module("fairseq_posattn.plugin")


def run(program: str) -> None:
    """Run fairseq's program so that its errors end in one line."""
    command_line.run(lambda: run_fairseq(program))


def run_fairseq(program: str) -> None:
    """Run fairseq's program with the plug-in; --user-dir names the plug-in unless the user gives
    another one."""
    if not any(argument.split("=")[0] == "--user-dir" for argument in sys.argv[1:]):
        sys.argv += ["--user-dir", str(Path(__file__).parents[1])]
    module = import_module(f"fairseq_cli.{program}")
    import_module("fairseq_posattn.plugin")  # --user-dir skips a package that is imported already
    log_to_stdout(program)
    module.cli_main()


def log_to_stdout(program: str) -> None:
    """Send the log to standard output, as fairseq's programs intend.

    A module that they import has set logging up for standard error before, so the log that a user
    keeps would lack its results.
    """
    for handler in list(logging.root.handlers):
        logging.root.removeHandler(handler)
    if program != "generate":  # it sets up logging later, perhaps to a file of --results-path
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=os.environ.get("LOGLEVEL", "INFO").upper(),
            stream=sys.stdout,
        )


train, generate, interactive, validate = (
    partial(run, program) for program in ("train", "generate", "interactive", "validate")
)
