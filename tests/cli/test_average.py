"""posattn average: the mean of the last checkpoints."""

import os
import re
import shutil
import sys
from unittest import mock

import pytest
import torch

from fairseq_posattn.cli.average import main
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.averaging import average, newest
from fairseq_posattn.fairseq_plugin.patches import safe
from fairseq_posattn.files import command_line
from support.commands import FULL_TREE, run
from support.in_process import generate, train

EACH_UPDATE = ("--save-interval-updates", "1", "--disable-validation", "--no-epoch-checkpoints")


@pytest.fixture(scope="module")
def trained(toy_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(toy_data, folder, *FULL_TREE, *EACH_UPDATE, "--max-update", "5")
    return folder


def parameters(path) -> dict:
    return torch.load(path, weights_only=False)["model"]


@pytest.mark.long(ci=True)
def test_the_mean_of_the_last(trained, toy_data, tmp_path):
    out = tmp_path / "averaged.pt"
    script = (sys.executable, "-m", "fairseq_posattn.cli.average")
    printed = run(*script, trained, "--last", 3, "--out", out).stdout
    names = [path.name for path in newest(trained, 3)]
    assert names == sorted(names, key=lambda name: int(re.findall(r"\d+", name)[-1]))
    assert ", ".join(names) in printed
    last = [parameters(trained / name) for name in names]
    for name, parameter in parameters(out).items():
        expected = sum(of_one[name].double() for of_one in last) / 3
        torch.testing.assert_close(parameter, expected.to(parameter.dtype), rtol=0, atol=0)
    assert "H-0" in generate(toy_data, out).output


def test_of_itself(trained):
    [path] = newest(trained, 1)
    for name, parameter in average([path, path])["model"].items():
        assert torch.equal(parameter, parameters(path)[name])


def test_by_epoch_where_there_are_none_by_update(tmp_path):
    for name in ("checkpoint9.pt", "checkpoint10.pt", "checkpoint_best.pt", "checkpoint_last.pt"):
        (tmp_path / name).touch()
    assert [path.name for path in newest(tmp_path, 2)] == ["checkpoint9.pt", "checkpoint10.pt"]
    (tmp_path / "checkpoint_1_100.pt").touch()
    assert [path.name for path in newest(tmp_path, 1)] == ["checkpoint_1_100.pt"]


def test_too_few(tmp_path):
    (tmp_path / "checkpoint1.pt").touch()
    with pytest.raises(
        InputError, match=r"1 checkpoints named by epoch or updates, but --last requests 5; .*last"
    ):
        newest(tmp_path, 5)
    (tmp_path / "checkpoint_1_100.pt").touch()
    with pytest.raises(
        InputError, match="contains 1 checkpoints named by updates, but --last requests 2"
    ):
        newest(tmp_path, 2)


def averaged(*arguments) -> None:
    with mock.patch.object(sys, "argv", ["posattn average", *map(str, arguments)]):
        command_line.run(main)


def refused(*arguments, capsys) -> str:
    """The one line that says why; nothing is written."""
    with pytest.raises(SystemExit) as ended:
        averaged(*arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (1, "") and err.startswith("error: ") and err.count("\n") == 1
    return err


HUGE = torch.zeros(1).expand(10**11)


def with_a_flipped_bit(file) -> None:
    """Change a weight as a bad disk does, which torch does not notice."""
    content = bytearray(file.read_bytes())
    weight = parameters(file)["encoder.layers.0.fc1.weight"].numpy().tobytes()
    content[content.index(weight) + len(weight) // 2] ^= 4
    file.write_bytes(content)
    assert parameters(file)


class Hidden:
    def __reduce__(self):
        return os.system, ("touch witness",)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:5000]), "is incomplete"),
        (
            lambda file: file.write_bytes(b"no checkpoint at all"),
            "the file does not start with the header of",
        ),
        (lambda file: torch.save([1, 2], file), "it contains no parameters"),
        (with_a_flipped_bit, "has a wrong checksum"),
        (
            lambda file: torch.save({"model": {"x": HUGE}}, file),
            "more elements than the file stores",
        ),
        pytest.param(
            lambda file: torch.save({"model": {}, "x": Hidden()}, file),
            "contains posix.system, ",
            marks=pytest.mark.skipif(
                not safe.loads_weights_only(), reason="torch before 2.6 does not check classes"
            ),
        ),
    ],
    ids=["torn", "text", "list", "bit", "huge", "code"],
)
def test_what_is_no_checkpoint(damage, message, trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "run")
    damage(newest(tmp_path / "run", 1)[0])
    line = refused(tmp_path / "run", "--last", "2", "--out", tmp_path / "out.pt", capsys=capsys)
    assert message in line and len(line) <= 301 and str(newest(tmp_path / "run", 1)[0]) in line
    assert sorted(os.listdir(tmp_path)) == ["run"]


def changed(path, out, change) -> None:
    state = torch.load(path, weights_only=False)
    change(state)
    torch.save(state, out)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            lambda s: s["cfg"]["model"].update(encoder_attention="window"),
            "model's encoder_attention",
        ),
        (
            lambda s: s["cfg"]["common"].update(seed=2),
            "the seed is 2 in the former, but 1 in the latter",
        ),
        (lambda s: s["task_state"]["trained_on"].update(dictionaries={"source": "0"}), "dictionar"),
        (lambda s: s["task_state"]["trained_on"].update(data={"train.bin": 0}), "of the data diff"),
        (lambda s: s["cfg"]["model"].update(dropout=0.3), None),
        (lambda s: s["cfg"]["optimization"].update(max_update=99), None),
        (lambda s: s.pop("task_state"), None),  # of an earlier version
        (lambda s: s["task_state"]["trained_on"].update(data={}), None),  # data without checksums
    ],
)
def test_of_one_training_only(change, found, trained, tmp_path):
    [path] = newest(trained, 1)
    changed(path, tmp_path / "other.pt", change)
    if found is None:
        average([path, tmp_path / "other.pt"])
        return
    with pytest.raises(
        InputError, match=f"other.pt and .* are from different training runs, because .*{found}"
    ):
        average([path, tmp_path / "other.pt"])


def test_two_seeds_of_a_stock_model(toy_data, tmp_path):
    """Its options stand in a namespace with those of all other parts."""
    for seed in "12":
        options = ("--arch", "transformer", "--seed", seed, "--max-update", "1", *EACH_UPDATE)
        train(toy_data, tmp_path / seed, *options)
    first, second = (newest(tmp_path / seed, 1)[0] for seed in "12")
    changed(first, tmp_path / "later.pt", lambda s: vars(s["cfg"]["model"]).update(max_update=9))
    average([first, tmp_path / "later.pt"])
    with pytest.raises(InputError, match="the seed is 2 in the former, but 1 in the latter"):
        average([first, second])


@pytest.mark.parametrize("value", ["nan", "-inf"])
def test_what_is_not_finite(value, trained, tmp_path):
    first, second = newest(trained, 2)
    name = "encoder.layers.0.fc1.bias"
    changed(second, tmp_path / "bad.pt", lambda s: s["model"][name].fill_(float(value)))
    with pytest.raises(InputError, match=rf"bad.pt: the parameter {name} contains infinite or N"):
        average([first, tmp_path / "bad.pt"])


@pytest.mark.parametrize("change", ["shape", "names"])
def test_another_architecture(trained, tmp_path, change):
    [path] = newest(trained, 1)
    other = torch.load(path, weights_only=False)
    name = next(name for name in other["model"] if name.endswith("fc1.weight"))
    parameter = other["model"].pop(name)
    other["model"][name if change == "shape" else "other"] = parameter[:-1]
    torch.save(other, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other.pt and .* have different architectures"):
        average([path, tmp_path / "other.pt"])


def test_the_machine_that_a_checkpoint_was_trained_on(trained):
    """By which the recipes tell whether the place in the epoch still counts."""
    from fairseq_posattn.experiments.training_options import batches_of, resets

    assert batches_of(trained / "checkpoint_last.pt") == ("1", "1000", "1")
    assert resets(trained, {"max-tokens": 1000}, []) == []
    assert resets(trained, {"max-tokens": 500}, []) == ["--reset-dataloader"]
