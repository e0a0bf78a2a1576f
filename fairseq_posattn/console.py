"""posattn-train, -generate, -interactive, -validate: fairseq's commands with the plug-in loaded."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def run(program: str) -> None:
    """fairseq's program; processes that it starts load the plug-in by the same option."""
    if not any(argument.split("=")[0] == "--user-dir" for argument in sys.argv[1:]):
        sys.argv += ["--user-dir", str(Path(__file__).parent)]
    # first: it sets up logging, which other modules of fairseq would do in their own ways
    module = import_module(f"fairseq_cli.{program}")
    import_module("fairseq_posattn.plugin")  # --user-dir passes over what is imported already
    module.cli_main()


def train() -> None:
    run("train")


def generate() -> None:
    run("generate")


def interactive() -> None:
    run("interactive")


def validate() -> None:
    run("validate")
