"""Downloads: whatever a server does, the file is right or not there, and the disk is not filled."""

import gzip
import hashlib
import io
import os
import resource
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments import downloads
from fairseq_posattn.experiments.corpora import unpack
from fairseq_posattn.experiments.downloads import Source, fetch
from fairseq_posattn.experiments.recipe_content import Corpus
from fairseq_posattn.files import command_line
from fairseq_posattn.files.command_line import describe
from fairseq_posattn.files.records import as_record
from support.files import names, with_unknown_compression
from support.hostile_server import CONTENT, WAYS, serving

SIZE = len(CONTENT)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FETCH = """
import sys
from pathlib import Path
from fairseq_posattn.experiments.downloads import fetch
from fairseq_posattn.experiments.downloads import Source
from fairseq_posattn.files import command_line
name, address, sha256, size, folder = sys.argv[1:]
command_line.run(lambda: fetch(Path(folder), [Source(name, address, sha256, int(size))]))
"""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(downloads, "PATIENCE", 2)
    with serving() as server:
        yield server


def address(server, way: str) -> str:
    return f"http://127.0.0.1:{server.server_port}/{way}"


def table_of(server, folder: Path, way: str, sha256: str = SHA256, size=0) -> list[Source]:
    return [Source("file", address(server, way), sha256, size)]


def refused(folder: Path, table: list[Source]) -> str:
    """Return the line that a failing download ends with."""
    with pytest.raises((InputError, OSError)) as raised:
        fetch(folder, table)
    return describe(raised.value)


# what arrives whole


@pytest.mark.parametrize("way", ["file", "redirects", "odd_lengths"])
@pytest.mark.parametrize("size", [SIZE, 0])
def test_a_file_is_fetched_once(server, tmp_path, way, size):
    table = table_of(server, tmp_path, way, size=size)
    fetch(tmp_path / "raw", table)
    assert (tmp_path / "raw/file").read_bytes() == CONTENT
    asked = list(server.asked)
    fetch(tmp_path / "raw", table)
    assert server.asked == asked and names(tmp_path / "raw") == ["file"]


def test_the_checksum_of_packed_text(server, tmp_path):
    fetch(tmp_path / "raw", table_of(server, tmp_path, "packed_text", f"text:{SHA256}"))
    assert gzip.decompress((tmp_path / "raw/file").read_bytes()) == CONTENT


# never more than stated


@pytest.mark.parametrize("way", ["for_ever", "for_ever_in_chunks", "one_byte_more"])
def test_no_more_is_written_than_stated(server, tmp_path, way):
    """The system lets the program write files of that size, and no larger ones."""
    process = start(server, tmp_path, way, largest=SIZE)
    message = process.communicate()[1]
    assert process.returncode == 1
    assert "sends more than the 12,800 bytes that the recipe states" in message
    assert names(tmp_path / "raw") == []


# every misbehaviour ends in one line


@pytest.mark.parametrize("size", [SIZE, 0])
@pytest.mark.parametrize("way", [way[1:] for way in WAYS])
def test_the_file_is_right_or_one_line_says_why_not(
    server, tmp_path, monkeypatch, capsys, way, size
):
    monkeypatch.setattr("fairseq_posattn.experiments.downloads.MOST_OF_UNKNOWN", 10 * SIZE)
    raw = tmp_path / "raw"
    table = table_of(server, tmp_path, way, size=size)
    with pytest.raises(SystemExit) as ended:
        command_line.run(lambda: fetch(raw, table))
    if ended.value.code:
        *_, message, rest = capsys.readouterr().err.split("\n")
        assert message.startswith("error: ") and f"/{way}: " in message and rest == ""
        assert message.isprintable() and len(message) <= 300
        assert message.endswith("--from FOLDER")
        assert way != "one_byte_less" or size == 0 or "12,799 of 12,800 bytes arrived" in message
        assert names(raw) == []
    else:
        assert (raw / "file").read_bytes() == CONTENT
        assert names(raw) == ["file"]


def test_checksums(server, tmp_path):
    message = refused(tmp_path / "raw", table_of(server, tmp_path, "file", "0f" * 32))
    assert f"the checksum of the file is {SHA256[:16]}, expected 0f0f" in message
    assert names(tmp_path / "raw") == []
    message = refused(tmp_path / "raw", table_of(server, tmp_path, "torn_text", f"text:{SHA256}"))
    assert "(the file has changed or was damaged)" in message and names(tmp_path / "raw") == []


# the program, its end and the disk


def start(server, folder: Path, way: str, largest: int | None = None) -> subprocess.Popen:
    """The program; `largest`: how many bytes a file that it writes can have."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    command = [sys.executable, "-c", FETCH, "file", address(server, way), SHA256, SIZE]
    return subprocess.Popen(
        [*map(str, command), str(folder / "raw")],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit if largest else None,
    )


def test_a_second_download_is_refused_and_a_killed_one_starts_again(server, tmp_path):
    process = start(server, tmp_path, "falls_silent")
    while not server.asked:
        assert process.poll() is None
        time.sleep(0.01)
    second = start(server, tmp_path, "file")
    assert "another run is writing here" in second.communicate()[1]
    assert second.returncode == 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "raw/file").exists()
    third = start(server, tmp_path, "file")
    assert third.communicate()[1].count("\n") == 1 and third.returncode == 0
    assert (tmp_path / "raw/file").read_bytes() == CONTENT


@pytest.fixture
def small_disk(tmp_path):
    """Yield a disk with room for less than the file."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk(server, small_disk, tmp_path):
    table = table_of(server, tmp_path, "file", size=SIZE)
    message = refused(small_disk, table)
    assert message.startswith(f"{small_disk}") and "no space left on the disk" in message
    assert names(small_disk) == []
    subprocess.run(["mount", "-o", "remount,size=64k", small_disk], check=True)
    fetch(small_disk, table)
    assert (small_disk / "file").read_bytes() == CONTENT


# what a recipe says of a file


FILE = {"name": "file", "bytes": 12800, "sha256": SHA256, "address": "http://127.0.0.1/file"}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        *(("name", name, "expected a plain name") for name in ("", "../x", "a/b", ".x")),
        ("name", "a\0", "expected text"),
        *(("bytes", size, "expected a number of bytes") for size in (-1, 10**15)),
        *(("bytes", size, "expected a whole number") for size in ("1", 1.5, True)),
        *(("sha256", sum, "expected a sha256") for sum in ("", "00ff", SHA256 + "0")),
        ("sha256", "md5:" + SHA256, "expected a sha256"),
        *(("address", at, "expected an address") for at in ("", "x", "file:///etc/passwd")),
        *(("address", at, "expected an address") for at in ("http://", "http://[", "http://a b/")),
        ("address", "http://ä.de/", "expected an address"),
    ],
)
def test_what_is_no_file_to_download(key, value, message):
    corpus = {"valid": "dev", "tests": [], "downloads": [FILE, {**FILE, key: value}]}
    with pytest.raises(
        InputError, match=rf"recipe.toml: downloads\[1\]\.{key} is .*{message}.*; mend"
    ) as raised:
        as_record(Corpus, corpus, "recipe.toml", "mend it")
    assert len(str(raised.value)) <= 300


def test_a_file_that_stands_twice():
    corpus = {"valid": "dev", "tests": [], "downloads": [FILE, FILE]}
    with pytest.raises(InputError, match="downloads lists the file 'file' twice"):
        as_record(Corpus, corpus, "recipe.toml", "mend it")


# archives


FILES = {"training/a.de": b"eins\n" * 1000, "training/a.en": b"one\n" * 1000, "b": b""}


def packed(path: Path, files=FILES) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def unpacked(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", ["a.tgz", "a.tar", "a.zip"])
def test_archives(tmp_path, name):
    archive = str(packed(tmp_path / name))
    unpack(archive, tmp_path / "all", [])
    assert unpacked(tmp_path / "all") == FILES
    unpack(archive, tmp_path / "one", ["training/a.en"])
    assert unpacked(tmp_path / "one") == {"training/a.en": FILES["training/a.en"]}
    with pytest.raises(InputError, match=rf"{name}: the archive does not contain training/c"):
        unpack(archive, tmp_path / "none", ["training/c"])


@pytest.mark.parametrize("name", ["a.tgz", "a.tar", "a.zip"])
@pytest.mark.parametrize("size", [0, 1, 100, 0.5, 0.9, -8])
def test_torn_archives(tmp_path, name, size):
    """No file of a torn archive is there unless it is whole."""
    archive = packed(tmp_path / name)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(size * len(data)) if isinstance(size, float) else size])
    if name == "a.tar" and size in (0.9, -8):
        return  # all files are there: only zeros are missing
    with pytest.raises(
        InputError, match=rf"{name}: the archive is incomplete or damaged"
    ) as raised:
        unpack(str(archive), tmp_path / "out", [])
    assert len(str(raised.value)) <= 300
    for name, content in unpacked(tmp_path / "out").items():
        assert content == FILES[name]


def test_a_zip_of_an_unknown_compression(tmp_path):
    archive = packed(tmp_path / "a.zip")
    archive.write_bytes(with_unknown_compression(archive.read_bytes()))
    with pytest.raises(
        InputError, match=r"a.zip: Python does not support this compression \(That compression"
    ):
        unpack(str(archive), tmp_path / "out", [])
    assert unpacked(tmp_path / "out") == {}


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
@pytest.mark.parametrize("member", ["../x", "/tmp/x", "a/../../x"])
def test_archives_that_would_leave_their_folder(tmp_path, name, member):
    archive = packed(tmp_path / name, {member: b"x"})
    with pytest.raises(InputError, match=rf"{name}: .* would be extracted outside the target"):
        unpack(str(archive), tmp_path / "out", [])
    assert not (tmp_path / "x").exists()


def test_links_in_archives_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
        inside = tarfile.TarInfo("link/x")
        archive.addfile(inside)
    unpack(str(tmp_path / "a.tar"), tmp_path / "out", [])
    assert not (tmp_path / "out/link").is_symlink() and not os.path.exists("/etc/x")
