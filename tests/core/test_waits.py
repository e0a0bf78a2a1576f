"""On an accelerator, which is pretended, nothing is on the wrong device, and hardly anything waits.

A wait is a place at which the program reads a number from the device: the device has to finish all
its work first, and has nothing to do until the program goes on.
"""

import json
import sys

import pytest

from support.commands import ROOT, run

PROGRAM = ROOT / "tests/support/pretended_device.py"
OF_A_BATCH = "fairseq_posattn/core/attention/context.py: shortest, longest, before = facts.tolist()"


def found(*arguments):
    """What goes wrong, as pairs of the case and the place."""
    environment = {"PYTHONPATH": str(ROOT / "tests")}
    done = run(sys.executable, PROGRAM, *arguments, check=False, fresh=True, env=environment)
    if done.returncode == 3:
        pytest.skip("this torch cannot pretend a device")
    assert done.returncode == 0, done.stdout[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
def test_layers_neither_wait_nor_send_data():
    """Every mechanism, on all heads and on some; forward and backward."""
    assert found("layers") == []


@pytest.mark.long
def test_models_wait_no_more_than_stock(toy_data):
    """A batch waits once for what the encoder must know, and once in fairseq's own decoder."""
    waits = {}
    for case, reason in found("models", toy_data):
        assert reason.startswith("waits: "), (case, reason)
        waits.setdefault(case, set()).add(reason.removeprefix("waits: "))
    stock = waits.pop("stock")
    assert len(stock) == 2 and len(waits) == 5
    for places in waits.values():
        assert OF_A_BATCH in places and len(places) == 2
