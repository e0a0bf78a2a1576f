"""Prepare the data of a translation recipe: collect its corpus and build the data folders.

The file DATA.texts.json, next to the data folder DATA, contains the fingerprints of the text files
from which the data were built. If a text has changed since then, an error is raised. Without this
check, translations of the old source text would be scored against the new references.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_json, write_json
from fairseq_posattn.io.progress import say
from fairseq_posattn.lab.experiments.commands import called, python
from fairseq_posattn.lab.experiments.corpora import Collector, references
from fairseq_posattn.lab.experiments.downloads import fetch
from fairseq_posattn.lab.experiments.recipe import arguments, refuse_chosen
from fairseq_posattn.lab.experiments.recipe_content import PARSED
from fairseq_posattn.lab.experiments.runs import files_in, fingerprint_of
from fairseq_posattn.lab.experiments.scoring import check_labels, check_scoring
from fairseq_posattn.lab.experiments.workplace import Workplace
from fairseq_posattn.trees.control import TreeControl

CONTROL = 'write trees = "CONTROL" into a [[models]] entry of recipe.toml'
PARSERS = {"--model-dir", "--download"}
OURS = {  # options that the engine sets itself, and what to do instead
    "--work": "give --work before --",
    "--out": "give --work before --",
    "--control": CONTROL,
    "--flip": CONTROL,
    "--control-seed": CONTROL,
}


def prepare(place: Workplace, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
    """Collect the corpus, and build one data folder for each kind of tree that the recipe uses.

    source: folder of the corpus (default: the folder or the downloads specified by the recipe).
    rest: additional options of posattn prepare.
    """
    refuse_chosen(rest, OURS)
    place.shell.act(check_scoring, place)
    own = place.content.corpus.folder
    folder = source or (place.recipe.folder / own if own else download(place))
    if not place.shell.is_there(folder):
        raise InputError(
            f"{folder}: there is no such folder; give the path of the corpus with --from"
        )
    place.shell.act(keep_records, place)
    collector = Collector(place.recipe, place.shell, folder, place.raw, any_size)
    collector.collect()
    place.shell.act(check_labels, place)
    texts = fingerprints_of(place)
    for trees in place.recipe.controls:
        if trees == PARSED and not {word.partition("=")[0] for word in rest} & PARSERS:
            say(
                f"data with {PARSED} trees are skipped; to build them, give a parser's models "
                f"after -- with {' or '.join(sorted(PARSERS))}"
            )
            continue
        place.shell.run(preparing(place, trees, rest))
        place.shell.act(remember, place, trees, texts)
    if place.content.corpus.kept:
        clean = place.pieces / f"train.clean.{place.content.source}"
        collector.expect_file(clean, *place.content.corpus.kept)


def keep_records(place: Workplace) -> None:
    """Write the missing DATA.texts.json files before the text files are replaced.

    Older versions of this package did not write these files.
    """
    place.raw.mkdir(parents=True, exist_ok=True)
    for trees in place.recipe.controls:
        if place.data(trees).is_dir() and not record_of(place, trees).exists():
            remember(place, trees, fingerprints_of(place))


def download(place: Workplace) -> Path:
    """Download the corpus and return its folder.

    Raises InputError if the recipe specifies no downloads.
    """
    folder, sources = place.work / "download", place.content.corpus.downloads
    if not sources:
        raise InputError(
            "this corpus cannot be downloaded; give its path with --from FOLDER (see "
            f"{place.recipe.folder}/README.md)"
        )
    if place.shell.does(f"download {', '.join(s.name for s in sources)} to {folder}"):
        fetch(folder, sources)
    return folder


def preparing(place: Workplace, trees: str, rest: Sequence[str]) -> list[str | Path]:
    """Return the command that builds the data folder for one kind of tree."""
    corpus = place.content.corpus
    control = TreeControl() if place.are_parsed(trees) else TreeControl.from_tag(trees)
    raw = place.raw / trees if trees in corpus.parsers else place.raw
    options = {
        "source": place.content.source,
        "target": place.content.target,
        "train": raw / corpus.train,
        "valid": raw / corpus.valid,
        "test": [raw / name for name in corpus.tests],
        "out": place.data(trees),
        "work": place.pieces_of(trees),
        **corpus.prepare,
    }
    if trees == PARSED:
        options["parser"] = "stanza"
    if control:
        options |= {"control": control.kind, "flip": control.flip, "control-seed": control.seed}
    return python("fairseq_posattn.cli.prepare", *arguments(options), *rest)


Fingerprints = dict[str, dict[str, Any]]


def record_of(place: Workplace, trees: str) -> Path:
    data = place.data(trees)
    return data.with_name(f"{data.name}.texts.json")


def texts_of(place: Workplace) -> dict[str, Path]:
    """Return the text files of all splits, including all references of the test sets.

    Each key starts with fairseq's name of the split, for example "train.de" or "test1.reference0".
    """
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
    return {key: fingerprint_of(path) for key, path in texts_of(place).items() if path.is_file()}


def remember(place: Workplace, trees: str, texts: Fingerprints) -> None:
    write_json(record_of(place, trees), texts, indent=1)


def check_texts(place: Workplace, trees: str) -> None:
    """Raise an InputError if a text has changed since the data were built.

    Nothing is checked if the fingerprints of the texts were not recorded.
    """
    record = record_of(place, trees)
    if not record.exists() or not place.raw.is_dir():
        return
    again = f"run {called('prepare', place.recipe.called)} again"
    was, now, paths = read_json(record, again), fingerprints_of(place), texts_of(place)
    splits = {key.partition(".")[0] for key in paths}
    for key in (key for key in {**now, **was} if key.partition(".")[0] in splits):
        if was.get(key) != now.get(key):
            raise InputError(
                f"{paths.get(key, place.raw)} ({key}) differs from the text that "
                f"{place.data(trees)} was made from; {again}"
            )
