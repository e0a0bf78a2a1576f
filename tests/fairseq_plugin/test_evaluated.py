"""fairseq evaluates the text of some options as Python: they are read, and no code runs."""

import ast
import os
import sys
from argparse import Namespace
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches import refusals
from support.in_process import call

HOSTILE = [
    "__import__('os').mkdir({0!r})",
    "(0.9, [1 for os.environ.__class__.__getitem__ in [os.mkdir] if os.environ[{0!r}]][0])",
    "[os := __import__('os'), os.mkdir({0!r})]",
    "f'{{open({0!r}, chr(119))}}'",
    "\n\t open({0!r}, \\\n'w')",
    "𝔬pen({0!r}, 'w')",
    "[1] + [open({0!r}, 'w')]",
]
TOO_LARGE = [
    "[0] * 999999999999",
    "[[0] * 9999] * 9999 + [0] * 9999",
    "9 ** 9 ** 9",
    "[" * 100_000,
    "(" * 150 + ")" * 150 + "*" * 3,
    "os",
    "logging.os",
    "",
    "\0",
    "1" * 5000,
]


def adam(betas: str):
    weight = torch.nn.Parameter(torch.zeros(1))
    return FairseqAdam(FairseqAdamConfig(adam_betas=betas, lr=[0.1]), [weight]).optimizer_config


@pytest.mark.parametrize("text", HOSTILE)
def test_code_in_a_value_does_not_run(text, tmp_path):
    victim = tmp_path / "victim"
    with pytest.raises(
        InputError, match="evaluates as Python, but it is not a literal; give a numb"
    ):
        adam(text.format(str(victim)))
    result = call(
        *("train", tmp_path, "--arch", "lightconv", "--encoder-glu", text.format(str(victim))),
        check=False,
    )
    assert "error: argument --encoder-glu: invalid eval_bool value" in result.message
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", TOO_LARGE)
def test_what_is_no_value_or_too_large(text):
    with pytest.raises(InputError):
        adam(text)


@pytest.mark.parametrize(
    "text",
    ["[(512, 3)] * 20", "[(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2", "(0.9, 0.98)", "-1"]
    + ["True", " None", "{'a': 1}", "10000,20000", "1e-9", "'x'", "0.9, 0.98 # 𝔬", "[]"],
)
def test_what_fairseq_has_of_its_own_keeps_its_value(text):
    assert refusals.read_value(text) == eval(text)


def test_a_checkpoint_of_a_stranger_runs_no_code(tmp_path):
    """Its options are evaluated when the model is built."""
    from fairseq.models.fconv import FConvModel

    options = Namespace(encoder_layers=f"[open({str(tmp_path / 'victim')!r}, 'w')]")
    words = Namespace(source_dictionary=[], target_dictionary=[])
    others = dict.fromkeys(("encoder_embed_dim", "encoder_embed_path", "dropout"))
    vars(options).update(others, decoder_embed_path=None, max_source_positions=9)
    with pytest.raises(InputError):
        FConvModel.build_model(options, words)
    assert os.listdir(tmp_path) == []


def calls_eval(path: Path) -> bool:
    text = path.read_text("utf-8")
    nodes = ast.walk(ast.parse(text)) if "eval(" in text.replace(".eval()", "") else ()
    names = [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(isinstance(name, ast.Name) and name.id == "eval" for name in names)


def test_all_modules_of_fairseq_that_evaluate_are_known():
    """No module is imported only later, but those of the programs, which are imported first."""
    root = Path(fairseq.__file__).parent
    found = [
        path.relative_to(root.parent)
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] != "examples" and calls_eval(path)
    ]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in found]
    assert "fairseq.optim.adam" in names and len(names) > 10
    for name in names:
        assert vars(sys.modules[name])["eval"] is refusals.read_value


def test_programs_that_evaluate(monkeypatch):
    """As with `python -m fairseq_cli.validate`."""
    program = Namespace(__spec__=Namespace(name="fairseq_cli.validate"))
    monkeypatch.setitem(sys.modules, "__main__", program)
    refusals.replace_eval()
    assert program.eval is refusals.read_value
