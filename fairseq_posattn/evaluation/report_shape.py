"""What the JSON of a scored system must look like, and the first thing in which one does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_posattn.files import InputError, read_json_value

NUMBER, WHOLE, TEXT = "a number", "a whole number", "text"
LARGEST = 1e15  # no figure of a system comes near it; larger ones cannot be drawn


@dataclass(frozen=True)
class Maybe:
    """A shape that may be null."""

    shape: Any


@dataclass(frozen=True)
class Named:
    """An object whose keys are names, with values of one shape."""

    shape: Any


# a key that ends in ? may be absent
SCORE = {"score": NUMBER, "signature": TEXT}
BUCKET = {"from": WHOLE, "to": Maybe(WHOLE), "sentences": WHOLE, "bleu": NUMBER}
DIFFERENCE = {
    "difference": NUMBER,
    "bootstrap_p?": Maybe(NUMBER),
    "randomisation_p?": Maybe(NUMBER),
    "mark": TEXT,
}
GAP = {"n": WHOLE, "bleu": NUMBER, "precision": NUMBER}
SPEED = {"sentences_per_second": NUMBER}
UPDATE = {"update": WHOLE, "train_loss": Maybe(NUMBER), "valid_loss": Maybe(NUMBER)}
EXAMPLE = {
    "number": WHOLE,
    "words": [TEXT],
    "parents": Maybe([WHOLE]),
    "depths?": Maybe([WHOLE]),
    "relations?": Maybe([TEXT]),
    "pieces": [TEXT],
    "translation": TEXT,
    "reference?": Maybe(TEXT),
    "attention": {
        "layers": WHOLE,
        "heads": WHOLE,
        "queries": WHOLE,
        "keys": WHOLE,
        "weights": TEXT,
        "largest?": NUMBER,
    },
}
SYSTEM = {
    "version": WHOLE,
    "system": TEXT,
    "test": TEXT,
    "source?": TEXT,
    "target?": TEXT,
    "sentences?": Maybe(WHOLE),
    "references?": Maybe(WHOLE),
    "scores": Named(SCORE),
    "buckets?": Named([BUCKET]),
    "baseline?": {"system": TEXT, "scores?": Named(DIFFERENCE), "ngrams?": [GAP]},
    "speed?": {"translation?": SPEED, "with_parsing?": SPEED},
    "training?": {
        "parameters?": Maybe(WHOLE),
        "words_per_second?": Maybe(NUMBER),
        "curve?": [UPDATE],
    },
    "examples?": [EXAMPLE],
}


def read_shaped(path: str | Path, shape: Any, remedy: str) -> Any:
    """What a JSON file holds, or an error that names the first thing that does not fit."""
    found = read_json_value(path, remedy)
    if fault := first_fault(found, shape):
        raise InputError(f"{path}: {fault}; {remedy}")
    return found


def first_fault(value: Any, shape: Any = SYSTEM, where: str = "") -> str | None:
    """What is wrong first, such as "scores.BLEU: the key 'score' is missing"; None: nothing."""
    return next(faults(value, shape, where), None)


def faults(value: Any, shape: Any, where: str) -> Iterator[str]:
    if isinstance(shape, Maybe):
        if value is not None:
            yield from faults(value, shape.shape, where)
    elif isinstance(shape, str):
        if not FITS[shape](value):
            yield f"{where}: expected {shape}, found {shown(value)}"
    elif isinstance(shape, list):
        yield from faults_of_list(value, shape[0], where)
    elif not isinstance(value, dict):
        yield f"{where or 'the file'}: expected an object, found {shown(value)}"
    elif isinstance(shape, Named):
        for name, part in value.items():
            yield from faults(part, shape.shape, joined(where, name))
    else:
        yield from faults_of_object(value, shape, where)


def faults_of_list(value: Any, shape: Any, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where}: expected a list, found {shown(value)}"
        return
    for k, part in enumerate(value):
        yield from faults(part, shape, f"{where}[{k}]")


def faults_of_object(value: dict, shape: dict, where: str) -> Iterator[str]:
    for name, part in shape.items():
        key = name.removesuffix("?")
        if key in value:
            yield from faults(value[key], part, joined(where, key))
        elif not name.endswith("?"):
            yield f"{where + ': ' if where else ''}the key '{key}' is missing"


def known_part(value: Any, shape: Any) -> Any:
    """A value that fits its shape, without the keys that the shape does not have."""
    if isinstance(shape, Maybe):
        return None if value is None else known_part(value, shape.shape)
    if isinstance(shape, list):
        return [known_part(part, shape[0]) for part in value]
    if isinstance(shape, dict):
        parts = {name.removesuffix("?"): part for name, part in shape.items()}
        return {key: known_part(value[key], part) for key, part in parts.items() if key in value}
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and is_usual(value)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and is_usual(value)


def is_usual(value: float) -> bool:
    """Whether it is finite, and no larger than what can be counted or measured here."""
    return -LARGEST <= value <= LARGEST  # false for nan


def is_text(value: Any) -> bool:
    """No half characters, which JSON can spell and a file cannot hold."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


FITS = {NUMBER: is_number, WHOLE: is_whole, TEXT: is_text}


def joined(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def shown(value: Any) -> str:
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # more digits than Python writes, or too deep
        text = "a very long value"
    return text if len(text) <= 60 else f"{text[:57]}..."
