"""fairseq's programs inside the test's process: a program of its own takes seconds to start."""

import contextlib
import io
import logging
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.files import command_line
from fairseq_posattn.plugin import PosattnTransformerModel
from support.commands import PLUGIN, training_options, translating
from support.quick_hydra import quick_hydra


class Result(NamedTuple):
    """This class holds what a program printed and logged, and what it ended with."""

    output: str
    error: BaseException | None

    @property
    def message(self) -> str:
        """What stands last on a user's terminal."""
        return self.output if self.error is None else f"{self.output}\n{self.error}"


def call(program: str, *arguments, check: bool = True, input: str = "") -> Result:
    """`fairseq-PROGRAM ARGUMENTS`, with `input` on stdin; with check, its error is raised."""
    given = input.encode(errors="surrogateescape")  # tests of invalid UTF-8 need single bytes
    buffer, root = io.StringIO(), logging.getLogger()
    handlers, level, error = root.handlers, root.level, None
    handler = logging.StreamHandler(buffer)
    handler.setFormatter(logging.Formatter("%(levelname)s | %(name)s | %(message)s"))
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    argv = [f"fairseq-{program}", *map(str, arguments)]
    with (
        quick_hydra(),
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given))),
        contextlib.redirect_stdout(buffer),
        contextlib.redirect_stderr(buffer),
    ):
        try:
            import_module(f"fairseq_cli.{program}").cli_main()
        except (Exception, SystemExit) as raised:
            error = raised
        finally:
            root.handlers = handlers
            root.setLevel(level)
    if isinstance(error, SystemExit) and not error.code:
        error = None
    if check and error is not None:
        raise AssertionError(buffer.getvalue()[-4000:]) from error
    return Result(buffer.getvalue(), error)


class Ended(NamedTuple):
    """What a command ended with, and what it printed."""

    code: int
    out: str
    err: str


def run_main(main: Callable[[], None], *arguments, input: bytes = b"") -> Ended:
    """Run the entry point of a program, as the program does."""
    stdin = io.TextIOWrapper(io.BytesIO(input), "utf-8", "surrogateescape")
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    argv = ["program", *map(str, arguments)]
    with mock.patch.multiple(sys, argv=argv, stdin=stdin, stdout=out, stderr=err):
        try:
            command_line.run(main)
        except SystemExit as end:
            code = end.code or 0
    for stream in (out, err):
        stream.flush()
    return Ended(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def posattn(name: str, *arguments, input: bytes = b"") -> Ended:
    """Run a command of the project."""
    main = import_module(f"fairseq_posattn.cli.{name}").main
    return run_main(main, *arguments, input=input)


def end_of(name: str, *arguments) -> str:
    """Return the line on stderr that a command of the project ends with."""
    ended = posattn(name, *arguments)
    assert ended.code in (0, 1, 2), ended.err
    return ended.err.rstrip("\n").rpartition("\n")[2]


def train(data: Path, save_dir: Path, *extra, **kwargs) -> Result:
    return call("train", *training_options(data, save_dir, *extra), **kwargs)


def generate(data: Path, checkpoint: Path, *extra, **kwargs) -> Result:
    common = translating(data, checkpoint)
    return call("generate", *common, "--batch-size", "16", *extra, **kwargs)


def interactive(data: Path, checkpoint: Path, text: str, *extra, **kwargs) -> Result:
    return call("interactive", *translating(data, checkpoint), *extra, input=text, **kwargs)


def hub(checkpoint: Path, data: Path, kind: type = PosattnTransformerModel, **options):
    """Load a model as torch.hub does it."""
    names = str(checkpoint.parent), checkpoint.name, str(data)
    return kind.from_pretrained(*names, user_dir=str(PLUGIN), cpu=True, **options)


def configured(data: Path, *extra):
    """The configuration that fairseq-train makes of a command line; later options win."""
    parser = options.get_training_parser()
    arguments = [str(a) for a in training_options(data, "unused", *extra)]
    with quick_hydra():
        return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))


class Built(NamedTuple):
    task: tasks.FairseqTask
    model: torch.nn.Module
    cfg: Namespace


def build(data: Path, *extra, seed: int = 1) -> Built:
    """Build the task and a freshly initialised model of a command line."""
    cfg = configured(data, *extra)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(seed)
    return Built(task, task.build_model(cfg.model), cfg)


def batch(task, split: str = "valid", sentences=range(6)) -> dict:
    """Return a collated batch of some sentences of a split."""
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.dataset(split)
    return dataset.collater([dataset[k] for k in sentences])


def hypotheses_and_scores(output: str) -> dict[int, tuple[str, str]]:
    """Return the best translation of each sentence and the score as printed, by its number."""
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", output, re.M)
    return {int(number): (text, score) for number, score, text in found}


def losses_of_updates(output: str) -> list[tuple[str, str]]:
    """Return the loss and gradient norm of each update as logged."""
    return re.findall(r"train_inner \|.* loss=([\d.]+).* gnorm=([\d.]+)", output)
