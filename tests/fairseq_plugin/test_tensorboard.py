"""TensorBoard shows what the mechanisms learn while they are trained.

Its files are complete when the process has ended.
"""

import struct
from pathlib import Path

import pytest

from support.commands import train

event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """The values of each tag by the number of updates, from the files that TensorBoard reads."""
    found: dict[str, dict[int, float]] = {}
    for path in folder.glob("events.*"):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + size])
            data = data[12 + size + 4 :]
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


@pytest.mark.long(ci=True)
def test_numbers_of_each_validation(toy_data, tmp_path):
    attention = "gaussian(heads=0|2)@0 + local_soft@1"
    options = ["--encoder-attention", attention, "--tensorboard-logdir", str(tmp_path / "board")]
    options += ["--max-update", "4", "--validate-interval-updates", "2", "--lr", "0.1"]
    train(toy_data, tmp_path / "run", *options)
    found = scalars(tmp_path / "board/diagnostics")
    first, second = "encoder.layers.0.self_attn", "encoder.layers.1.self_attn"
    assert set(found) == {
        *(f"{first}/gaussian_σ/head_{k}" for k in (0, 2)),
        *(f"{second}/local_soft_centre_minus_query/head_{k}" for k in range(4)),
        *(f"{second}/local_soft_width_of_the_window/head_{k}" for k in range(4)),
    }
    for by_update in found.values():
        assert sorted(by_update) == [2, 4]
    sigma = found[f"{first}/gaussian_σ/head_0"]
    assert sigma[2] != sigma[4] and abs(sigma[2] - 10) < 5
    assert scalars(tmp_path / "board/valid")["loss"].keys() == {2, 4}


def test_nothing_is_written_without_tensorboard(toy_data, tmp_path):
    train(toy_data, tmp_path / "run", "--encoder-attention", "gaussian", "--max-update", "2")
    assert not list(tmp_path.rglob("events.*"))
