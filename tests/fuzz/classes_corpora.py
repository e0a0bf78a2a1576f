"""What recipes/corpora.py reads: the table of sources, packed texts, archives."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import tarfile
import zipfile
from pathlib import Path

from .classes_logs import write
from .mutations import BYTES, COLUMNS
from .registry import ROOT, add
from .runner import Command, InputClass

sys.path.insert(0, str(ROOT / "recipes"))
TEXT = "".join(f"line {k}\n" for k in range(200)).encode()
SOURCES = """\
# name\tbytes\tsha256 (text: of what is packed)\taddress
train.en.gz\t-\ttext:460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6\thttps://a.org/x.gz
train.tgz\t657632379\t0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7\tftp://b:c@d.org/y.tgz
"""


def table(folder: Path) -> Command:
    """Nothing is fetched: the table is read, and what would be fetched is looked at."""
    from sources import sources

    def read() -> None:
        for source in sources(str(folder / "sources.tsv")):
            assert 0 < source.most < 10**15 and len(source) == 4
            assert "/" not in source.name and source.name.strip(".")

    return Command(read)


add(
    InputClass(
        "SOURCES.tsv",
        lambda folder: write(folder / "sources.tsv", SOURCES),
        table,
        damaged=["sources.tsv"],
        mutations=COLUMNS,
    )
)


def corpora() -> None:
    from corpora import main

    main()


def packed(folder: Path) -> None:
    (folder / "a.gz").write_bytes(gzip.compress(TEXT))
    (folder / "b.xz").write_bytes(lzma.compress(TEXT))
    write(folder / "c", TEXT.decode())


add(
    InputClass(
        "corpora: join",
        packed,
        lambda folder: Command(
            corpora, ["join", folder / "out", folder / "a.gz", folder / "b.xz", folder / "c"]
        ),
        damaged=["a.gz", "b.xz", "c"],
        mutations=BYTES,
        outputs=["out"],
    )
)
add(
    InputClass(
        "corpora: expect",
        packed,
        lambda folder: Command(corpora, ["expect", folder / "a.gz", 200]),
        damaged=["a.gz"],
        mutations=BYTES,
        share=0.5,
    )
)


def archives(folder: Path) -> None:
    files = {"training/a.de": TEXT, "training/a.en": TEXT[::-1], "b": b""}
    with tarfile.open(folder / "a.tgz", "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


for archive in ("a.tgz", "a.zip"):
    add(
        InputClass(
            f"archives ({archive})",
            archives,
            lambda folder, archive=archive: Command(
                corpora, ["unpack", folder / archive, folder / "out"]
            ),
            damaged=[archive],
            mutations=BYTES,
            outputs=["out/*"],
            left=["out/*"],
            share=0.5,
        )
    )
