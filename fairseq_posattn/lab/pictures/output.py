"""Writes a picture into a file whose ending says of what kind it is."""

from __future__ import annotations

from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.paths import refuse_unwritable
from fairseq_posattn.lab.pictures.figure import save
from fairseq_posattn.lab.pictures.page import page
from fairseq_posattn.lab.pictures.picture import Picture
from fairseq_posattn.lab.report.drawing import import_matplotlib

KINDS = ("png", "svg", "html")


def checked_kind(path: Path) -> str:
    """Return which kind of file a path names, or refuse what could not be written later."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"--out {path}: name a file that ends in .png, .svg or .html")
    refuse_unwritable(path)
    if kind != "html":
        import_matplotlib()
    return kind


def write(picture: Picture, path: Path, kind: str) -> bool:
    """Write a file of this kind; return whether it shows all letters of the words."""
    if kind == "html":
        text = page(picture)
        with written_whole(path) as file:
            file.write(text)
        return True
    with replaced_whole(path) as partial:
        return save(picture, partial, kind)
