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
from fairseq_posattn.experiments.allowed import request_of
from fairseq_posattn.experiments.commands import called
from fairseq_posattn.experiments.corpora import Collector, reference_files
from fairseq_posattn.experiments.downloads import fetch
from fairseq_posattn.experiments.recipe import refuse_chosen
from fairseq_posattn.experiments.recipe_content import PARSED
from fairseq_posattn.experiments.runs import fingerprint_of
from fairseq_posattn.experiments.scoring import check_labels, check_scoring
from fairseq_posattn.experiments.workspace import Workspace
from fairseq_posattn.files.files import read_json, write_json
from fairseq_posattn.files.requests import command_of
from fairseq_posattn.files.terminal import say
from fairseq_posattn.preparation.request import PreparationRequest
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


def prepare(setup: Workspace, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
    """Collect the corpus, and build one data folder for each kind of tree that the recipe uses.

    source: folder of the corpus (default: the folder or the downloads specified by the recipe).
    rest: additional options of posattn prepare.
    """
    refuse_chosen(rest, OURS)
    setup.shell.act(check_scoring, setup)
    own = setup.content.corpus.folder
    folder = setup.given(source or (setup.folder / own if own else download(setup)))
    setup.shell.act(keep_records, setup)
    collector = Collector(setup.recipe, setup.shell, folder, setup.raw, any_size)
    collector.collect()
    setup.shell.act(check_labels, setup)
    texts = fingerprints_of(setup)
    for trees in setup.recipe.controls:
        if trees == PARSED and not {word.partition("=")[0] for word in rest} & PARSERS:
            say(
                f"data with {PARSED} trees are skipped; to build them, give a parser's models "
                f"after -- with {' or '.join(sorted(PARSERS))}"
            )
            continue
        if trees in collector.skipped:
            continue
        setup.shell.run([*command_of(preparing(setup, trees)), *rest])
        setup.shell.act(remember, setup, trees, texts)
    if setup.content.corpus.kept:
        clean = setup.pieces() / f"train.clean.{setup.content.source}"
        collector.expect_file(clean, *setup.content.corpus.kept)


def keep_records(setup: Workspace) -> None:
    """Write the missing DATA.texts.json files before the text files are replaced.

    Older versions of this package did not write these files.
    """
    setup.raw.mkdir(parents=True, exist_ok=True)
    for trees in setup.recipe.controls:
        if setup.data_of(trees).is_dir() and not record_of(setup, trees).exists():
            remember(setup, trees, fingerprints_of(setup))


def download(setup: Workspace) -> Path:
    """Download the corpus and return its folder.

    Raises InputError if the recipe specifies no downloads.
    """
    folder, sources = setup.work / "download", setup.content.corpus.downloads
    if not sources:
        raise InputError(
            "this corpus cannot be downloaded; give its path with --from FOLDER (see "
            f"{setup.recipe.folder}/README.md)"
        )
    if setup.shell.does(f"download {', '.join(s.name for s in sources)} to {folder}"):
        fetch(folder, sources)
    return folder


def preparing(setup: Workspace, trees: str) -> PreparationRequest:
    """Return the request that builds the data folder for one kind of tree."""
    corpus = setup.content.corpus
    control = TreeControl() if setup.are_parsed(trees) else TreeControl.from_tag(trees)
    raw = setup.raw / trees if trees in corpus.parsers else setup.raw
    options = {
        "source": setup.content.source,
        "target": setup.content.target,
        "train": raw / corpus.train,
        "valid": raw / corpus.valid,
        "test": [raw / name for name in corpus.tests],
        "out": setup.data_of(trees),
        "work": setup.pieces(trees),
        **corpus.prepare,
    }
    if trees == PARSED:
        options["parser"] = "stanza"
    if control:
        options |= {"control": control.kind, "flip": control.flip, "control-seed": control.seed}
    return request_of(PreparationRequest, options)


Fingerprints = dict[str, dict[str, Any]]


def record_of(setup: Workspace, trees: str) -> Path:
    data = setup.data_of(trees)
    return data.with_name(f"{data.name}.texts.json")


def texts_of(setup: Workspace) -> dict[str, Path]:
    """Return the text files of all splits, including all references of the test sets.

    Each key starts with fairseq's name of the split, for example "train.de" or "test1.reference0".
    """
    corpus, languages = setup.content.corpus, (setup.content.source, setup.content.target)
    tests = {f"test{k or ''}": name for k, name in enumerate(corpus.tests)}
    found = {
        f"{split}.{language}": setup.raw / f"{name}.{language}"
        for split, name in {"train": corpus.train, "valid": corpus.valid, **tests}.items()
        for language in languages
    }
    for split, name in tests.items():
        paths = reference_files(setup.recipe, setup.raw, name)
        found |= {f"{split}.reference{k}": path for k, path in enumerate(paths)}
    return found


def fingerprints_of(setup: Workspace) -> Fingerprints:
    return {key: fingerprint_of(path) for key, path in texts_of(setup).items() if path.is_file()}


def remember(setup: Workspace, trees: str, texts: Fingerprints) -> None:
    write_json(record_of(setup, trees), texts, indent=1)


def check_texts(setup: Workspace, trees: str) -> None:
    """Raise an InputError if a text has changed since the data were built.

    Nothing is checked if the fingerprints of the texts were not recorded.
    """
    record = record_of(setup, trees)
    if not record.exists() or not setup.raw.is_dir():
        return
    again = f"run {called('prepare', setup.recipe.called)} again"
    was, now, paths = read_json(record, again), fingerprints_of(setup), texts_of(setup)
    splits = {key.partition(".")[0] for key in paths}
    for key in (key for key in {**now, **was} if key.partition(".")[0] in splits):
        if was.get(key) != now.get(key):
            raise InputError(
                f"{paths.get(key, setup.raw)} ({key}) differs from the text that "
                f"{setup.data_of(trees)} was made from; {again}"
            )
