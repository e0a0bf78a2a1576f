"""What the recipes read: recipe.toml, packed texts, archives."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

from fairseq_posattn.experiments.corpora import check_sentences, unpack, write_lines

from .classes_logs import write
from .mutations import BYTES
from .registry import ROOT, Command, add

TEXT = "".join(f"line {k}\n" for k in range(200)).encode()


def recipe(folder: Path) -> None:
    text = (ROOT / "recipes/wmt14_en_de/recipe.toml").read_text(encoding="utf-8")
    write(folder / "recipe.toml", text)


def read(folder: Path) -> Command:
    """Nothing is fetched or trained: the recipe is read, and what it would do is looked at."""
    from fairseq_posattn.experiments.recipe import arguments, read_recipe

    def look() -> None:
        found = read_recipe(str(folder))
        for source in found.content.corpus.downloads:
            assert 0 <= source.bytes < 10**15
            assert "/" not in source.name and source.name.strip(".")
        for row in found.content.models:
            assert found.content.sizes[row.size].updates > 0 and "/" not in row.system
            assert all(type(word) is str for word in arguments(row.training))

    return Command(look)


add("recipe.toml", recipe, "recipe.toml", BYTES)(read)


def packed(folder: Path) -> None:
    (folder / "a.gz").write_bytes(gzip.compress(TEXT))
    (folder / "b.xz").write_bytes(lzma.compress(TEXT))
    write(folder / "c", TEXT.decode())


add("corpora: join", packed, "a.gz b.xz c", BYTES, "out")(
    lambda folder: Command(
        lambda: write_lines(folder / "out", [folder / name for name in ("a.gz", "b.xz", "c")])
    )
)
add("corpora: expect", packed, "a.gz", BYTES, share=0.5)(
    lambda folder: Command(lambda: check_sentences(folder / "a.gz", 200))
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
    add(f"archives ({archive})", archives, archive, BYTES, "out/*", left="out/*", share=0.5)(
        lambda folder, archive=archive: Command(
            lambda: unpack(str(folder / archive), folder / "out", [])
        )
    )
