"""posattn-average: the mean of the last checkpoints."""

import re
import sys

import pytest
import torch

from commands import FULL_TREE, run
from fairseq_posattn.checkpoints.average import average, newest
from fairseq_posattn.files import InputError
from in_process import generate, train

EACH_UPDATE = ("--save-interval-updates", "1", "--disable-validation", "--no-epoch-checkpoints")


@pytest.fixture(scope="module")
def trained(toy_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(toy_data, folder, *FULL_TREE, *EACH_UPDATE, "--max-update", "5")
    return folder


def parameters(path) -> dict:
    return torch.load(path, weights_only=False)["model"]


def test_the_mean_of_the_last(trained, toy_data, tmp_path):

    out = tmp_path / "averaged.pt"
    script = (sys.executable, "-m", "fairseq_posattn.checkpoints.average")
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
    with pytest.raises(InputError, match=r"1 checkpoints, 5 are to be averaged.*--last"):
        newest(tmp_path, 5)


@pytest.mark.parametrize("change", ["shape", "names"])
def test_another_architecture(trained, tmp_path, change):
    [path] = newest(trained, 1)
    other = torch.load(path, weights_only=False)
    name = next(name for name in other["model"] if name.endswith("fc1.weight"))
    parameter = other["model"].pop(name)
    other["model"][name if change == "shape" else "other"] = parameter[:-1]
    torch.save(other, tmp_path / "other.pt")
    with pytest.raises(InputError, match="not of the same architecture"):
        average([path, tmp_path / "other.pt"])
