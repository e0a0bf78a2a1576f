"""fairseq's own programs end with one line for what the user can mend, else with a traceback."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches import input_errors
from fairseq_posattn.fairseq_plugin.patches.safe import CheckpointError
from fairseq_posattn.trees import TreeError
from support.commands import PLUGIN, fairseq, run
from support.trainings import train, training

SPAWNED = (
    "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n"
)


def shown(
    error: BaseException, capsys, file: str = "/env/fairseq_cli/train.py"
) -> tuple[str, bool]:
    """What the hook prints for an error that a file raises, and whether it leaves it to Python."""
    left = []
    raiser = types.FunctionType(compile("raise error", file, "exec"), {"error": error})
    with pytest.raises(type(error)) as raised:
        raiser()
    error = raised.type, raised.value, raised.tb
    input_errors.with_one_line(lambda *args: left.append(args), *error)
    out, err = capsys.readouterr()
    assert out == ""
    return err, bool(left)


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", "/disk/checkpoint_last.pt")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("text:3: bad; mend it"), "text:3: bad; mend it"),
        (CheckpointError("x.pt is torn"), "x.pt is torn"),
        (TreeError("a tree"), "a tree"),
        (full(), "/disk/checkpoint_last.pt: there is no space left on the disk; free some"),
        (OSError(errno.EROFS, "Read-only file system", "/d"), "/d: the file system is read-only"),
        (PermissionError(errno.EACCES, "Permission denied", "/d"), "/d: Permission denied"),
        (FileNotFoundError("Dataset not found: train (/d)"), "Dataset not found: train (/d)"),
        (RuntimeError(f"{SPAWNED}fairseq_posattn.errors.InputError: bad; mend it\n"), "bad; mend"),
        (
            RuntimeError(f"{SPAWNED}OSError: [Errno 28] No space left on device: '/d'\n"),
            "No space left on device: '/d'",
        ),
    ],
)
def test_errors_of_input_and_disk(error, line, capsys):
    printed, left = shown(error, capsys)
    assert printed.startswith(f"error: {line}") and printed.count("\n") == 1 and not left


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        RuntimeError("x"),
        RuntimeError(f"{SPAWNED}KeyError: 'x'\n"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
    ],
)
def test_faults_of_the_program_keep_their_traceback(error, capsys):
    assert shown(error, capsys) == ("", True)


def test_programs_of_the_user_are_left_alone(capsys, monkeypatch):
    assert shown(full(), capsys, "/home/me/my_program.py") == ("", True)
    monkeypatch.setenv("POSATTN_TRACEBACK", "1")
    assert shown(full(), capsys) == ("", True)


def last_line(result: subprocess.CompletedProcess) -> str:
    """Return the one line of error at the end of a real program's output."""
    assert result.returncode == 1 and "Traceback" not in result.stdout, result.stdout[-4000:]
    *_, line = result.stdout.splitlines()
    assert line.startswith("error: ") and len(line) <= 300
    return line


# full and read-only disks


@pytest.fixture
def small_disk(tmp_path):
    """A function that makes a small disk of so many KiB; it is a part of the memory."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mounted(size: int) -> Path:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("only root may mount a small disk")
        return folder

    yield mounted
    subprocess.run(["umount", "-l", str(folder)], capture_output=True)


def trained(corpora: Path, folder: Path, save_dir: Path, *options) -> dict[str, bytes]:
    """A short training's checkpoints, in a folder that this process has no lock on."""
    train("stock", corpora, folder, *options)
    shutil.copytree(folder, save_dir, ignore=shutil.ignore_patterns(".training.lock"))
    return checkpoints(save_dir)


def limited(kilobytes: int, *command):
    """A command whose files cannot grow beyond a size, as on a full disk."""
    script = f'ulimit -f {kilobytes}; exec "$@"'
    return run("bash", "-c", script, "limited", *command, check=False)


def checkpoints(folder: Path) -> dict[str, bytes]:
    """All that can be loaded, which must be all that there is."""
    found = {path.name: path.read_bytes() for path in folder.glob("*.pt")}
    assert all(torch.load(folder / name)["model"] for name in found)
    assert set(os.listdir(folder)) <= {*found, ".training.lock", ".unfinished"}
    return found


TRAIN = [sys.executable, "-m", "fairseq_cli.train"]


EACH = ["--save-interval-updates", "1", "--disable-validation", "--max-update"]


@pytest.mark.long
def test_a_checkpoint_that_cannot_grow(corpora, tmp_path):
    """The older ones stay, and the training goes on from there."""
    run_dir = tmp_path / "run"
    before = trained(corpora, tmp_path / "made", run_dir, *EACH, "2")
    more = training("stock", corpora, run_dir, *EACH, "3")
    line = last_line(limited(100, *TRAIN, *more))
    assert line.startswith(
        f"error: {run_dir}/checkpoint_1_3.pt: the file exceeds the maximum file size"
    )
    assert checkpoints(run_dir) == before
    result = train("stock", corpora, run_dir, *EACH, "3")
    assert "@ 2 updates)" in result.output and (run_dir / "checkpoint_1_3.pt").exists()


def average(run_dir: Path):
    options = [run_dir, "--last", "1", "--out", run_dir / "out.pt"]
    return run(sys.executable, "-m", "fairseq_posattn.cli.average", *options, check=False)


@pytest.mark.long
def test_a_full_disk(corpora, small_disk):
    disk = small_disk(2000)
    run_dir = disk / "run"
    result = run(*TRAIN, *training("stock", corpora, run_dir, *EACH, "9"), check=False)
    assert "no space left on the disk; free some" in last_line(result)
    assert "checkpoint_1_1.pt" in checkpoints(run_dir)
    with contextlib.suppress(OSError), open(disk / "filler", "wb") as file:
        file.write(bytes(1 << 22))
    result = average(run_dir)
    assert last_line(result).startswith(
        f"error: {run_dir}/out.pt: there is no space left on the disk"
    )
    result = run(*TRAIN, *training("stock", corpora, run_dir, *EACH, "9"), check=False)
    assert last_line(result).startswith(
        f"error: {run_dir}"
    )  # the folder, or the checkpoint's own name
    assert "no space left on the disk" in last_line(result)
    checkpoints(run_dir)
    (disk / "filler").unlink()
    run("mount", "-o", "remount,size=20m", disk)
    result = run(*TRAIN, *training("stock", corpora, run_dir, *EACH, "9"))
    assert "Loaded checkpoint" in result.stdout and "checkpoint_2_9.pt" in checkpoints(run_dir)


@pytest.mark.long
def test_a_read_only_disk(corpora, small_disk, tmp_path):
    disk = small_disk(20000)
    run_dir = disk / "run"
    before = trained(corpora, tmp_path / "made", run_dir, *EACH, "1")
    run("mount", "-o", "remount,ro", disk)
    result = run(*TRAIN, *training("stock", corpora, run_dir), check=False)
    assert "the file system is read-only" in last_line(result)
    assert "the file system is read-only" in last_line(average(run_dir))
    assert checkpoints(run_dir) == before


# real programs


@pytest.mark.long
def test_the_programs_of_fairseq(corpora, tmp_path):
    """They meet a missing folder, an incomplete checkpoint and a line without a tree."""
    data, options = corpora / "translation", ["--user-dir", PLUGIN, "--cpu"]
    none = fairseq("train", *training("tree", corpora, tmp_path, "-s", "xx"), check=False)
    assert last_line(none)
    (tmp_path / "torn.pt").write_bytes(b"")
    options += ["--task", "structured_translation", "-s", "src", "-t", "tgt"]
    options += ["--batch-size", "1", "--path", tmp_path / "torn.pt"]
    for program in ("generate", "validate", "interactive"):
        result = fairseq(program, data, *options, check=False)
        assert last_line(result) == (
            f"error: {tmp_path}/torn.pt is incomplete, because writing or copying it was "
            "interrupted; use another checkpoint, or copy the file again"
        )


@pytest.mark.long
def test_a_genuine_fault_has_its_traceback(corpora, tmp_path):
    """The fault is in a plug-in of the user's own."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/__init__.py").write_text(
        "from fairseq_posattn import plugin\n"
        "from fairseq.tasks.translation import TranslationTask\n"
        "TranslationTask.build_model = lambda *_, **__: {}['x']\n"
    )
    options = training("stock", corpora, tmp_path / "run", "--user-dir", tmp_path / "own")
    result = fairseq("train", *options, check=False)
    assert result.returncode == 1 and result.stdout.rstrip().endswith("KeyError: 'x'")
    assert "Traceback" in result.stdout


@pytest.mark.long
def test_processes_that_are_spawned(tmp_path):
    """fairseq starts one process for each GPU in this way."""
    program = tmp_path / "fairseq_cli_spawning.py"
    program.write_text(
        "import sys, torch\n"
        "import fairseq\n"
        "import fairseq_posattn.plugin\n"
        "from fairseq_posattn.errors import InputError\n"
        "def work(rank, full):\n"
        "    if full:\n"
        "        raise OSError(28, 'No space left on device', '/disk')\n"
        "    raise InputError('text:3: bad; mend it')\n"
        "if __name__ == '__main__':\n"
        "    torch.multiprocessing.spawn(work, args=(len(sys.argv) > 1,), nprocs=2)\n"
    )
    result = run(sys.executable, program, check=False)
    assert last_line(result) == "error: text:3: bad; mend it"
    result = run(sys.executable, program, "full", check=False)
    assert last_line(result) == "error: No space left on device: '/disk'"
