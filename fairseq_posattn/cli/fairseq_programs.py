"""Run fairseq's programs with the plug-in: posattn train, generate, interactive and validate."""

import logging
import os
import sys
from dataclasses import fields, make_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.requests import Parser


def run(program: str) -> None:
    """Run one of fairseq's programs with the plug-in; print expected errors as one line."""
    command_line.run(lambda: run_fairseq(program))


def run_fairseq(program: str) -> None:
    """Run one of fairseq's programs, with the plug-in as the default for --user-dir."""
    if not any(argument.split("=")[0] == "--user-dir" for argument in sys.argv[1:]):
        sys.argv += ["--user-dir", str(Path(__file__).parents[1])]
    module = import_module(f"fairseq_cli.{program}")
    refusals = import_module("fairseq_posattn.fairseq_plugin.patches.refusals")
    import_module("fairseq_posattn.plugin")  # --user-dir skips a package that is imported already
    logging.getLogger("fairseq.utils").addFilter(
        lambda record: "has already been imported" not in record.getMessage()
    )
    log_to_stdout(program)
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(own_help(program), end="\n\n")
    try:
        module.cli_main()
    except Exception as error:
        message = None if command_line.foreseen(error) else refusals.refusal(error)
        if message is None:
            raise
        raise InputError(message) from error


def own_help(program: str) -> str:
    """Return the help for the options of the plug-in.

    fairseq's --help lists only the options of the selected model, task and criterion.
    """
    from fairseq.dataclass import FairseqDataclass
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    from fairseq_posattn.core import attention
    from fairseq_posattn.core.positions.registry import describe
    from fairseq_posattn.fairseq_plugin.criterions import TreeSupervisedConfig
    from fairseq_posattn.fairseq_plugin.models.config import OwnOptions
    from fairseq_posattn.fairseq_plugin.translation_options import StructuredTranslationConfig

    about = f"fairseq-{program} with the plug-in. fairseq's own options are listed at the end."
    parser = Parser(prog=f"posattn {program}", description=about)
    groups = {"task structured_translation": StructuredTranslationConfig}
    if program == "train":
        groups = {
            "presets posattn_... (--arch)": OwnOptions,
            "criterion tree_supervised_cross_entropy": TreeSupervisedConfig,
            **groups,
        }
    for title, kind in groups.items():
        own = [(f.name, f.type, f) for f in fields(kind) if f.name in kind.__annotations__]
        options = make_dataclass(kind.__name__, own, bases=(FairseqDataclass,))()
        gen_parser_from_dataclass(parser.add_argument_group(title), options)
    parts = [parser.format_help().partition("\n\n")[2].rstrip()]
    if program == "train":
        mechanisms = attention.MECHANISMS.items()
        parts += [attention.describe(), describe()]
        parts += [
            f"Mechanisms for --{side}-attention (pass 'help' for details): "
            + " ".join(name for name, cls in mechanisms if getattr(cls, safe))
            for side, safe in (("decoder", "causal_safe"), ("cross", "cross_safe"))
        ]
    return "\n\n".join([*parts, "fairseq's options of all models and tasks:"])


def log_to_stdout(program: str) -> None:
    """Log to standard output, as fairseq's programs intend.

    A module that these programs import has already configured logging to standard error. Therefore,
    without this function, a file with the standard output would not contain the results.
    """
    for handler in list(logging.root.handlers):
        logging.root.removeHandler(handler)
    if program != "generate":  # it configures logging later, possibly to a file in --results-path
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=os.environ.get("LOGLEVEL", "INFO").upper(),
            stream=sys.stdout,
        )


train, generate, interactive, validate = (
    partial(run, program) for program in ("train", "generate", "interactive", "validate")
)
