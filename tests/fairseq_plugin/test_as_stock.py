"""Options of fairseq that change a whole training do what they do with its own transformer."""

import re
from pathlib import Path

import pytest

from support import commands
from support.commands import FULL_TREE
from support.in_process import Result, generate, hypotheses_and_scores, losses_of_updates, train
from support.trainings import assert_same_model

STOCK = ("--arch", "transformer")
ARCHITECTURES = {"stock": STOCK, "ours": ()}
RESETS = ("optimizer", "dataloader", "meters", "lr-scheduler")
LAST = "checkpoint_last.pt"
PRUNED = "{'encoder_layers_to_keep': '1', 'decoder_layers_to_keep': '0'}"


def again(data: Path, run: Path, *options: str, arch=()) -> Result:
    """Train for two updates, then go on to the fourth with these options."""
    train(data, run, *arch, "--max-update", "2")
    return train(data, run, *arch, *options)


def from_other(data: Path, run: Path, option: str, arch=(), other=STOCK) -> Result:
    """Begin a training with the checkpoint of another one."""
    first = run.parent / f"{run.name}-first"
    train(data, first, *other, "--max-update", "2")
    return train(data, run, *arch, option, first / LAST)


def pruned(data: Path, run: Path, *options: str, arch=()) -> Result:
    train(data, run, *arch, *options, "--decoder-layers", "2")
    return generate(data, run / LAST, "--model-overrides", PRUNED)


CASES = {
    "checkpoint-activations": lambda *run, arch: train(*run, *arch, "--checkpoint-activations"),
    "layernorm-embedding": lambda *run, arch: train(*run, *arch, "--layernorm-embedding"),
    "layerdrop": lambda *run, arch: train(
        *run, *arch, "--encoder-layerdrop", "0.4", "--decoder-layerdrop", "0.4"
    ),
    "layers-to-keep": lambda *run, arch: pruned(
        *run, "--encoder-layerdrop", "0.4", "--decoder-layerdrop", "0.4", arch=arch
    ),
    "resets": lambda *run, arch: again(*run, *(f"--reset-{name}" for name in RESETS), arch=arch),
    **{
        f"reset-{name}": lambda *run, arch, name=name: again(*run, f"--reset-{name}", arch=arch)
        for name in RESETS
    },
    "finetune-from-model": lambda *run, arch: from_other(*run, "--finetune-from-model", arch),
    "restore-file": lambda *run, arch: from_other(*run, "--restore-file", arch),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_it_is_as_in_the_stock_architecture(case, toy_data, tmp_path):
    """Losses and parameters are equal bit by bit; our decoder rounds scores differently."""
    results = {
        name: CASES[case](toy_data, tmp_path / name, arch=arch)
        for name, arch in ARCHITECTURES.items()
    }
    if case != "layers-to-keep":
        stock, ours = (losses_of_updates(result.output) for result in results.values())
        assert stock == ours and ours
        assert_same_model(*(tmp_path / name / LAST for name in ARCHITECTURES))
        return
    stock, ours = (hypotheses_and_scores(result.output) for result in results.values())
    assert [*stock] == [*ours] and len(ours) == 60
    for number, (text, score) in ours.items():
        assert (text, pytest.approx(float(score), abs=1e-5)) == (
            stock[number][0],
            float(stock[number][1]),
        )


@pytest.mark.long
def test_in_the_plain_locale(toy_data, tmp_path):
    """Files, text and what is printed are UTF-8 under LC_ALL=C, too."""
    printed = []
    for name, plain in (("plain", {"LC_ALL": "C"}), ("usual", {"LC_ALL": "C.UTF-8"})):
        how = {"env": plain, "fresh": True}
        commands.train(toy_data, tmp_path / name, *FULL_TREE, "--max-update", "2", **how)
        options = ("--missing-tree", "flat", "--max-len-b", "5")
        text = "tsé 日本 tse\n"
        last = tmp_path / name / LAST
        given = (*commands.translating(toy_data, last), *options)
        found = commands.fairseq("interactive", *given, input=text, **how)
        printed.append(re.findall(r"^[SH]-.*", found.stdout, re.M))
    assert printed[0] == printed[1] != []
    assert_same_model(*(tmp_path / name / LAST for name in ("plain", "usual")))


@pytest.mark.long
@pytest.mark.parametrize("option", ["--finetune-from-model", "--restore-file"])
@pytest.mark.parametrize(
    ("other", "arch", "refused"),
    [
        (STOCK, FULL_TREE, ""),
        (FULL_TREE, STOCK, "the checkpoint does not fit the model"),
        (FULL_TREE, ("--encoder-attention", "alibi"), "the checkpoint does not fit the model"),
        (
            ("--encoder-attention", "relative(max=3)"),
            ("--encoder-attention", "relative"),
            "the checkpoint does not fit the model",
        ),
    ],
    ids=["stock to ours", "ours to stock", "other mechanisms", "other options"],
)
def test_a_checkpoint_of_another_model(option, other, arch, refused, toy_data, tmp_path):
    """It is taken where mechanisms are added to a stock model, or refused in one line."""
    other = ("--optimizer", "sgd", *other)
    first = tmp_path / "first"
    train(toy_data, first, *other, "--max-update", "1")
    fresh = ("--optimizer", "sgd")
    if option == "--restore-file":
        fresh += ("--reset-optimizer", "--reset-lr-scheduler")
    result = train(toy_data, tmp_path / "run", *arch, *fresh, option, first / LAST, check=False)
    if not refused:
        assert result.error is None
        return
    assert refused in str(result.error)
    assert not (tmp_path / "run" / LAST).exists()
