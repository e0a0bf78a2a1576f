"""Files are read strictly and written whole or not at all."""

import contextlib
import errno
import os
import resource
import stat
import subprocess
import sys
import threading

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import (
    folder_written_whole,
    replaced_name,
    replaced_whole,
    temp_name,
    written_together,
    written_whole,
)
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.files import count_lines, read_lines, same_number_of_lines
from fairseq_posattn.files.lock import locked
from support.files import names
from support.killed import killed_at


class Killed(BaseException):
    """What stops a step in the middle."""


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        ("a\u2028b\u0085c\x0cd\n".encode(), ["a\u2028b\u0085c\x0cd"]),
        ("\ufeffa\n\ufeffb\n".encode(), ["a", "\ufeffb"]),
    ],
)
def test_lines(tmp_path, content, lines):
    path = tmp_path / "text"
    path.write_bytes(content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


def test_not_utf8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\n\xe4\n")
    with pytest.raises(InputError, match=r"text:2: the line is not UTF-8 .*iconv"):
        list(read_lines(path))


def test_number_of_lines(tmp_path):
    for name, content in {"two": "a\nb\n", "open": "a\nb", "three": "a\n\nb\n"}.items():
        (tmp_path / name).write_text(content)
    assert same_number_of_lines([tmp_path / "two", tmp_path / "open"]) == 2
    with pytest.raises(InputError, match=r"two has 2 lines, but .*three has 3"):
        same_number_of_lines([tmp_path / "two", tmp_path / "three"])


def test_written_whole(tmp_path):
    with written_whole(tmp_path / "deep" / "er" / "text") as file:
        file.write("ä\u2028\n")
        assert not (tmp_path / "deep" / "er" / "text").exists()
    assert names(tmp_path / "deep" / "er") == ["text"]
    assert (tmp_path / "deep" / "er" / "text").read_bytes() == "ä\u2028\n".encode()


def test_stopped_in_the_middle_nothing_is_left(tmp_path):
    (tmp_path / "first").write_text("old")
    with pytest.raises(Killed), written_together([tmp_path / "first", tmp_path / "second"]) as both:
        for file in both:
            file.write("new")
        raise Killed
    assert names(tmp_path) == ["first"]
    assert (tmp_path / "first").read_text() == "old"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "text")
    with written_whole(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "text").read_text() == "new"


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk(tmp_path, monkeypatch, capsys):
    def main():
        with written_whole(tmp_path / "text") as file:
            file.write("new")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(SystemExit) as stopped:
        run(main)
    assert stopped.value.code == 1
    assert capsys.readouterr().err.startswith(
        f"error: {tmp_path}/text: there is no space left on the disk"
    )
    assert names(tmp_path) == []


def too_large_a_file(path):
    with written_whole(path) as file:
        file.write("new" * 9999)


def too_large_a_file_of_two(path):
    with written_together([path, f"{path}2"]) as files:
        files[0].write("new" * 9999)


def too_large_a_file_in_a_folder(path):
    with folder_written_whole(path) as folder:
        (folder / "text").write_text("new" * 9999)


@pytest.mark.parametrize(
    "write", [too_large_a_file, too_large_a_file_of_two, too_large_a_file_in_a_folder]
)
def test_a_file_that_grows_too_large(write, tmp_path, capsys):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SystemExit):
            run(lambda: write(tmp_path / "out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    line = capsys.readouterr().err
    assert line.startswith(f"error: {tmp_path}/out") and "raise the limit (ulimit -f)" in line
    assert names(tmp_path) == []


def test_folder(tmp_path):
    left = temp_name(tmp_path / "data")
    left.mkdir()
    (left / "left over").touch()
    with folder_written_whole(tmp_path / "data") as folder:
        (folder / "text").write_text("new")
        assert not (tmp_path / "data").exists()
    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["text"]


def test_folder_in_folders_that_are_not_there(tmp_path):
    with folder_written_whole(tmp_path / "new/newer/out", lock=False) as folder:
        (folder / "file").touch()
    assert names(tmp_path / "new/newer/out") == ["file"]


def test_a_run_that_waits_for_another_says_so(tmp_path, capsys):
    with contextlib.ExitStack() as other:
        other.enter_context(locked(tmp_path / "out"))
        # the other run ends during the first pause
        with locked(tmp_path / "out", wait=True, pause=lambda _: other.close()):
            assert "another run is writing here; waiting" in capsys.readouterr().err
    with locked(tmp_path / "out", wait=True):
        assert capsys.readouterr().err == ""


def test_folder_exists(tmp_path):
    (tmp_path / "old").touch()
    with (
        pytest.raises(InputError, match=r"already exists; .*--overwrite"),
        folder_written_whole(tmp_path),
    ):
        pass
    assert names(tmp_path) == ["old"]


def test_folder_replaced_at_the_end_only(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "old").touch()
    with pytest.raises(Killed), folder_written_whole(data, replace=True):
        raise Killed
    assert names(data) == ["old"]
    with folder_written_whole(data, replace=True) as folder:
        (folder / "new").touch()
    assert names(data) == ["new"]
    assert names(tmp_path) == ["data"]


def test_two_runs_with_one_output_never_mix(tmp_path):
    path = tmp_path / "text"
    with written_whole(path) as first:
        first.write("first " * 1000)
        with written_whole(path) as second:  # begins later, ends earlier
            second.write("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first " * 1000
    assert names(tmp_path) == ["text"]


def test_a_killed_run_leaves_the_other_ones_file_alone(tmp_path):
    path = tmp_path / "text"
    with written_whole(path) as file:
        file.write("whole")
        assert killed_at(2, write_and_stop, path)  # before fsync
    assert path.read_text() == "whole"
    assert len(names(tmp_path)) == 2  # what the killed run left
    with written_whole(path) as file:
        assert len(names(tmp_path)) == 2  # it is gone, and the new one grows
        file.write("again")
    assert names(tmp_path) == ["text"]


def write_and_stop(path):
    with written_whole(path) as file:
        file.write("torn")


def test_files_that_belong_together_come_from_one_run(tmp_path):
    pair = [tmp_path / "a", tmp_path / "b"]
    with written_together(pair), pytest.raises(InputError, match="another run is writing here"):
        written_together(pair).__enter__()
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_open(tmp_path, umask):
    before = os.umask(umask)
    try:
        with written_whole(tmp_path / "new"), replaced_whole(tmp_path / "other"):
            pass
        with folder_written_whole(tmp_path / "folder"):
            pass
        (tmp_path / "plain").touch()
        (tmp_path / "made").mkdir()
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)}
    assert modes["new"] == modes["other"] == modes["plain"]
    assert modes["folder"] == modes["made"]


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    (tmp_path / "text").touch(0o640)
    with written_whole(tmp_path / "text") as file:
        file.write("new")
    assert stat.S_IMODE((tmp_path / "text").stat().st_mode) == 0o640


def test_a_folder_is_refused_before_the_work(tmp_path):
    with pytest.raises(InputError, match="is a folder"), written_whole(tmp_path):
        raise AssertionError("the work was begun")


def test_a_pipe_is_written_to_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    with written_whole(tmp_path / "pipe") as file:
        file.write("through")
    reader.join()
    assert read == ["through"] and names(tmp_path) == ["pipe"]


def test_one_file_for_two_outputs_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "text")
    for other in ("text", "link"):
        paths = [tmp_path / "text", tmp_path / other]
        with (
            pytest.raises(InputError, match="two outputs have the same path"),
            written_together(paths),
        ):
            raise AssertionError("the work was begun")


def test_what_the_shell_redirects_is_not_replaced(tmp_path):
    """The lines of the other programs, which write into the same log, stay."""
    write = (
        "from fairseq_posattn.files.files import written_whole\n"
        "with written_whole('/dev/stdout') as file:\n    file.write('x\\n')\n"
    )
    script = f'(echo before; {sys.executable} -c "$0"; echo after) >> log'
    result = subprocess.run(
        ["bash", "-c", script, write], cwd=tmp_path, capture_output=True, text=True
    )
    assert (tmp_path / "log").read_text() == "before\nafter\n"
    assert f"/dev/stdout: the shell redirects it to {tmp_path}/log; pass that file" in result.stderr
    piped = ["bash", "-c", f'{sys.executable} -c "$0" | cat', write]
    assert subprocess.run(piped, capture_output=True, text=True).stdout == "x\n"


def test_a_full_device_is_an_error():
    with pytest.raises(OSError, match="No space left"), written_whole("/dev/full") as file:
        file.write("x")


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("precious")
    planted = temp_name(tmp_path / "text")
    planted.symlink_to(tmp_path / "victim")
    choices = iter([planted, temp_name(tmp_path / "text")])
    monkeypatch.setattr("fairseq_posattn.files.atomic.temp_name", lambda target: next(choices))
    with pytest.raises(FileExistsError), written_whole(tmp_path / "text"):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_very_long_names(tmp_path):
    for name in ("n" * 255, "ü" * 127):
        with written_whole(tmp_path / name) as file:
            file.write("x")
        assert (tmp_path / name).read_text() == "x"


def test_a_folder_survives_a_kill_at_any_moment(tmp_path):
    data = tmp_path / "data"

    def make(text):
        with folder_written_whole(data, replace=True) as folder:
            (folder / "text").write_text(text)

    make("old")
    for moment in range(1, 100):
        if not killed_at(moment, make, "new"):
            break
        assert (data if data.exists() else replaced_name(data)).joinpath("text").exists()
        with pytest.raises(Killed), folder_written_whole(data, replace=True):
            assert (data / "text").read_text() in ("old", "new")
            raise Killed
        make("old")
    assert moment > 3
    assert names(tmp_path) == ["data"]


def test_a_lock_ends_with_its_process(tmp_path):
    program = "import sys; from fairseq_posattn.files.lock import locked; l = locked(sys.argv[1])"
    program += "; l.__enter__(); print('held', flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="another run is writing here"), locked(tmp_path / "out"):
        pass
    holder.kill()
    holder.communicate()
    with locked(tmp_path / "out"):
        pass
    assert names(tmp_path) == []
