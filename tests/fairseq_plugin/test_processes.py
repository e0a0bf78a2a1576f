"""Several processes train as one, or are refused in one folder."""

import errno
import fcntl
import shutil
import sys

import pytest
import torch

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.fairseq_plugin.patches import launch
from fairseq_posattn.fairseq_plugin.patches.safe import CheckpointError
from fairseq_posattn.files import lock
from support.background import Training, free_port
from support.commands import FULL_TREE, losses, run, training_options
from support.in_process import generate, train
from support.trainings import assert_same_model

SAME = [*FULL_TREE, "--batch-size", "20", "--disable-validation", "--no-epoch-checkpoints"]
AS_ONE = [
    *("--distributed-world-size", "2"),
    *("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"),
]


@pytest.fixture(scope="module")
def one_process(toy_data, tmp_path_factory):
    """What two processes must do alike: the losses of four double updates, and the last file."""
    folder = tmp_path_factory.mktemp("one")
    result = train(toy_data, folder, *SAME, "--update-freq", "2")
    assert len(losses(result.output)) == 4
    return losses(result.output), folder / "checkpoint_last.pt"


def train_in_two(data, folder, *options) -> list[tuple[int, str]]:
    """The documented command, once for each rank: exit codes and what was printed."""
    method = ["--distributed-no-spawn"]
    method += ["--distributed-init-method", f"tcp://127.0.0.1:{free_port()}"]
    method = [*SAME, *AS_ONE, *method, *options, "--distributed-rank"]
    with Training(data, folder, *method, 0) as first, Training(data, folder, *method, 1) as second:
        return [(rank.wait(), rank.printed()) for rank in (first, second)]


@pytest.mark.long(ci=["legacy_ddp"])
@pytest.mark.parametrize("backend", ["legacy_ddp", "no_c10d"])
def test_two_processes_are_one_with_doubled_batches(backend, one_process, toy_data, tmp_path):
    (code, printed), (other_code, _) = train_in_two(toy_data, tmp_path, "--ddp-backend", backend)
    assert (code, other_code) == (0, 0), printed[-2000:]
    expected, last = one_process
    assert losses(printed) == expected
    assert_same_model(tmp_path / "checkpoint_last.pt", last)


@pytest.mark.long
def test_two_processes_with_faster_steps(toy_data, tmp_path):
    """What they add up are the gradients that the criterion has made itself."""
    faster = ["--optimizer", "fused_adam", "--criterion", "fused_label_smoothed_cross_entropy"]
    alone = train(toy_data, tmp_path / "alone", *SAME, *faster, "--update-freq", "2")
    (code, printed), (other_code, _) = train_in_two(toy_data, tmp_path / "two", *faster)
    assert (code, other_code) == (0, 0), printed[-2000:]
    assert losses(printed) == losses(alone.output)
    two, one = (torch.load(tmp_path / each / "checkpoint_last.pt") for each in ("two", "alone"))
    torch.testing.assert_close(two["model"], one["model"], rtol=1e-3, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--encoder-layerdrop", "0.5"),
        (
            *("--encoder-attention", "tree_supervised(scores=biaffine)@1"),
            *("--criterion", "tree_supervised_cross_entropy"),
        ),
    ],
    ids=["trees", "layerdrop", "supervised"],
)
def test_two_processes_under_torch_s_own_backend(options, toy_data, tmp_path):
    """It is the default, and waits for the gradient of each parameter, used or not."""
    folders = {name: tmp_path / name for name in ("pytorch_ddp", "legacy_ddp")}
    for name, folder in folders.items():
        backend = ("--ddp-backend", name, "--optimizer", "sgd", "--lr", "0.1", *options)
        (code, printed), (other_code, other) = train_in_two(toy_data, folder, *backend)
        assert (code, other_code) == (0, 0), printed[-2000:] + other[-2000:]
    ours, legacy = (torch.load(folder / "checkpoint_last.pt") for folder in folders.values())
    torch.testing.assert_close(ours["model"], legacy["model"], rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_two_processes_resume(one_process, toy_data, tmp_path):
    """Also from a torn file: both mend it in the same way."""
    train_in_two(toy_data, tmp_path, "--max-update", "2", "--save-interval-updates", "2")
    (tmp_path / "checkpoint_last.pt").write_bytes(b"")
    (code, printed), (other_code, other) = train_in_two(toy_data, tmp_path)
    assert (code, other_code) == (0, 0), printed[-2000:] + other[-2000:]
    expected, last = one_process
    assert losses(printed) == expected[2:]
    assert_same_model(tmp_path / "checkpoint_last.pt", last)


def dates_and_bytes(folder) -> dict:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.glob("*.pt")}


@pytest.mark.long
def test_two_finished_processes_stay_as_they_are(one_process, toy_data, tmp_path):
    """Started by rank, then by torchrun; with a raised limit they go on."""
    limit = ["--max-update", "2"]
    train_in_two(toy_data, tmp_path, *limit)
    before = dates_and_bytes(tmp_path)
    (code, printed), (other_code, other) = train_in_two(toy_data, tmp_path, *limit)
    assert (code, other_code) == (0, 0), printed[-2000:] + other[-2000:]
    assert "This training is finished: it has made 2 updates" in printed
    again = torchrun(toy_data, tmp_path, *AS_ONE, *limit)
    assert again.returncode == 0 and "This training is finished" in again.stdout
    assert dates_and_bytes(tmp_path) == before
    expected, last = one_process
    assert losses(torchrun(toy_data, tmp_path, *AS_ONE).stdout) == expected[2:]
    assert_same_model(tmp_path / "checkpoint_last.pt", last)


def torchrun(data, folder, *options):
    return run(
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"),
        *("-m", "fairseq_cli.train", *training_options(data, folder, *SAME, *options)),
        check=False,
    )


@pytest.mark.long
def test_torchrun_on_the_cpu(one_process, toy_data, tmp_path):
    result = torchrun(toy_data, tmp_path, *AS_ONE)
    expected, last = one_process
    assert result.returncode == 0 and losses(result.stdout) == expected
    assert_same_model(tmp_path / "checkpoint_last.pt", last)


def test_strangers_are_refused(toy_data, tmp_path, monkeypatch):
    """torchrun starts them so if fairseq is told of no world size."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    size = ("--distributed-world-size", "1")
    result = train(toy_data, tmp_path, *size, check=False)
    assert isinstance(result.error, CheckpointError)
    assert "2 processes were started together (WORLD_SIZE=2)" in str(result.error)
    assert "pass --distributed-world-size 2 to each" in str(result.error)
    monkeypatch.setenv("WORLD_SIZE", "1")
    train(toy_data, tmp_path, *size, "--max-update", "1")


# one folder


@pytest.mark.long
def test_a_second_training_in_the_folder(toy_data, tmp_path):
    """Refused while the first one runs, which goes on; free as soon as that has been killed,
    though its data loader may outlive it for some seconds."""
    folder = tmp_path / "checkpoints"
    endless = ("--max-update", "100000", "--num-workers", "1", "--save-interval-updates", "2")
    keep = ("--keep-interval-updates", "1", "--keep-last-epochs", "1", "--disable-validation")
    with Training(toy_data, folder, *endless, *keep) as first:
        first.wait_for("Saved checkpoint")
        second = train(toy_data, folder, check=False)
        assert isinstance(second.error, CheckpointError)
        assert f"another training run (process {first.process.pid} on " in str(second.error)
        assert f"is writing to {folder}" in str(second.error)
        assert "choose another --save-dir" in str(second.error)
        train(toy_data, folder, "--no-save", "--restore-file", "none", "--max-update", "1")
        generate(toy_data, folder / "checkpoint_last.pt")
        saved = first.printed().count("Saved checkpoint")
        first.wait_for("Saved checkpoint", times=saved + 2)
        assert first.process.poll() is None
        first.kill()
        train(toy_data, folder, "--max-update", "1")


@pytest.mark.long
def test_two_as_one_in_the_folder_of_another(toy_data, tmp_path):
    """Both end, and each prints a message."""
    with Training(toy_data, tmp_path, "--max-update", "100000", "--no-epoch-checkpoints") as first:
        first.wait_for("train_inner")
        (code, printed), (other_code, other) = train_in_two(toy_data, tmp_path)
    assert (code, other_code) == (1, 1), printed + other
    assert "another training" in printed and "the first process cannot start" in other


def test_folders_without_locks(tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", unsupported)
    launch.take_lock(str(tmp_path))
    assert (
        "cannot be locked" in caplog.text
        and "do not start another training run in this folder" in caplog.text
    )


def test_the_lock_goes_by_the_folder_not_its_name(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    before = len(lock.held)
    launch.take_lock(str(tmp_path / "folder"))
    launch.take_lock(str(tmp_path / "link"))
    assert len(lock.held) == before + 1
    shutil.rmtree(tmp_path / "folder")
