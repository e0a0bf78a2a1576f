"""Options that fairseq refuses, or stumbles over, end in one line that names them."""

import contextlib
import io
import logging
import sys
from unittest import mock

import pytest

from fairseq_posattn.cli import fairseq_programs
from support.commands import training_options
from support.in_process import translating
from support.quick_hydra import quick_hydra


def line_of(program: str, *arguments) -> str:
    """Return the line with which posattn-PROGRAM refuses its options."""
    printed, handlers = io.StringIO(), logging.root.handlers
    with (
        quick_hydra(),
        mock.patch.object(sys, "argv", [f"posattn {program}", *map(str, arguments)]),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.raises(SystemExit) as end,
    ):
        try:
            getattr(fairseq_programs, program)()
        finally:
            logging.root.handlers = handlers
    line = printed.getvalue().rstrip("\n").rpartition("\n")[2]
    assert end.value.code in (1, 2) and "Traceback" not in printed.getvalue()
    assert line.startswith("error: ") and "unexpected" not in line
    return line.removeprefix("error: ")


GENERATE = {
    "--int8 --fp16": "--int8 cannot be combined with --fp16 or --bf16",
    "--sampling --nbest 1": "--sampling requires --nbest to be equal to --beam; change or leave "
    "out --beam 2, --sampling, --nbest 1",
    "--temperature 0": "--temperature must be greater than 0; change or leave out --temperature 0",
    "--nbest 0": "--nbest: expected a number above 0, found 0",
    "--constraints": "--constraints are read from lines of new text only",
    "--diverse-beam-groups 3": "DiverseBeamSearch requires --beam to be divisible by the number "
    "of groups; change or leave out --beam 2",
    "--model-overrides {'a'": "--model-overrides {'a': expected a dictionary",
    "--max-len-a 1e308": "--max-len-a: expected a number from -1e+30 to 1e+30, found 1e+308",
    "--seed 4294967296": "--seed: expected at most 4294967295, found 4294967296",
    "--lenpen nan": "--lenpen: expected a finite number, found nan",
    "--bpe subword_nmt": "--bpe-codes is missing; add it",
    "--print-step": "KeyError: 'steps'; change or leave out --print-step",
    "--num-workers 99999": "--num-workers: expected at most 1024, found 99999",
}
TRAIN = {
    "--adaptive-softmax-cutoff 10,20 --criterion label_smoothed_cross_entropy": "--adaptive-softmax"
    "-cutoff needs --criterion adaptive_loss, found label_smoothed_cross_entropy",
    "--adaptive-softmax-cutoff x": "argument --adaptive-softmax-cutoff: invalid value: 'x'",
    "--update-freq 0": "--update-freq: expected a number above 0, found 0",
    "--cpu-offload": "--cpu-offload requires --ddp-backend=fully_sharded; change or leave out "
    "--cpu-offload",
    "--encoder-layers-to-keep x": "--encoder-layers-to-keep or --decoder-layers-to-keep x is not a",
}


@pytest.mark.long(but=["--nbest 0", "--temperature 0", "--constraints", "--lenpen nan"])
@pytest.mark.parametrize("options", GENERATE)
def test_generate(options, toy_data, tree_model):
    common = [*translating(toy_data, tree_model), "--batch-size", "16"]
    assert line_of("generate", *common, *options.split(" ")).startswith(GENERATE[options])


@pytest.mark.long(but=["--update-freq 0", "--cpu-offload"])
@pytest.mark.parametrize("options", TRAIN)
def test_train(options, toy_data, tmp_path):
    common = training_options(toy_data, tmp_path, "--disable-validation")
    assert line_of("train", *common, *options.split(" ")).startswith(TRAIN[options])
