"""Hold the texts of a recipe together with the data that were made from them.

DATA.texts.json, beside a data folder, has the fingerprints of the texts that the data were made
from. If a text is another one now, the data are refused: translations of the old sources would be
scored against new references.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_json, write_json
from fairseq_posattn.lab.experiments.corpora import references
from fairseq_posattn.lab.experiments.recipe import arguments
from fairseq_posattn.lab.experiments.runs import files_in, fingerprint_of
from fairseq_posattn.lab.experiments.workplace import Workplace

Fingerprints = dict[str, dict[str, Any]]


def record_of(place: Workplace, trees: str) -> Path:
    """Return the file that says from what texts the data were made."""
    data = place.data(trees)
    return data.with_name(f"{data.name}.texts.json")


def texts_of(place: Workplace) -> dict[str, Path]:
    """Return the texts of each split, under fairseq's names, with all references of the tests."""
    corpus, languages = place.content.corpus, (place.content.source, place.content.target)
    tests = {f"test{k or ''}": name for k, name in enumerate(corpus.tests)}
    found = {
        f"{split}.{language}": place.raw / f"{name}.{language}"
        for split, name in {"train": corpus.train, "valid": corpus.valid, **tests}.items()
        for language in languages
    }
    for split, name in tests.items():
        files = files_in(arguments(references(place.recipe, place.raw, name)))
        found |= {f"{split}.reference{k}": Path(file) for k, file in enumerate(files)}
    return found


def fingerprints_of(place: Workplace) -> Fingerprints:
    """Return the fingerprints of all texts that are there."""
    return {key: fingerprint_of(path) for key, path in texts_of(place).items() if path.is_file()}


def remember(place: Workplace, trees: str, texts: Fingerprints) -> None:
    """Note from what texts the data were made."""
    write_json(record_of(place, trees), texts, indent=1)


def check_texts(place: Workplace, trees: str) -> None:
    """Refuse data that were made from other texts; nobody knows it of those of older versions."""
    record = record_of(place, trees)
    if not record.exists() or not place.raw.is_dir():
        return
    again = f"start recipes/prepare.sh {place.recipe.called} again"
    was, now, paths = read_json(record, again), fingerprints_of(place), texts_of(place)
    splits = {key.partition(".")[0] for key in paths}
    for key in (key for key in {**now, **was} if key.partition(".")[0] in splits):
        if was.get(key) != now.get(key):
            raise InputError(
                f"{paths.get(key, place.raw)}: {place.data(trees)} was made from another text as "
                f"{key}; {again}"
            )
