"""Files are read strictly and written whole or not at all."""

import errno
import os

import pytest

from fairseq_posattn.command_line import describe, run
from fairseq_posattn.files import (
    InputError,
    count_lines,
    folder_written_whole,
    read_lines,
    same_number_of_lines,
    written_together,
    written_whole,
)


class Killed(BaseException):
    """What stops a step in the middle."""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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
    with pytest.raises(InputError, match=r"text:2: not UTF-8 .*iconv"):
        list(read_lines(path))


def test_number_of_lines(tmp_path):
    for name, content in {"two": "a\nb\n", "open": "a\nb", "three": "a\n\nb\n"}.items():
        (tmp_path / name).write_text(content)
    assert same_number_of_lines([tmp_path / "two", tmp_path / "open"]) == 2
    with pytest.raises(InputError, match=r"two has 2, .*three has 3"):
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
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}: no space left on the disk")
    assert names(tmp_path) == []


def test_folder(tmp_path):
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "left over").touch()
    with folder_written_whole(tmp_path / "data") as folder:
        (folder / "text").write_text("new")
        assert not (tmp_path / "data").exists()
    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["text"]


def test_folder_exists(tmp_path):
    (tmp_path / "old").touch()
    with (
        pytest.raises(InputError, match=r"exists already; .*--overwrite"),
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


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("f:1: bad"), "f:1: bad"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "f"), "f: No such file"),
        (OSError("3 requested and 0 written"), "3 requested and 0 written"),
    ],
)
def test_errors_in_one_line(error, line):
    assert describe(error).startswith(line)
