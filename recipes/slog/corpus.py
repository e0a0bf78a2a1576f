"""Give the sentences of SLOG (Li et al. 2023) trees, and say from which words their forms come.

A line of a file, or of a file in the zip, has a sentence, its variable-free form and its category.
The zip is not unpacked: its authors keep it packed, so that language models do not find it among
their training texts. The texts that are made of it lie in the folder of work.
"""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from alignments import aligned
from forms import read_form, tree_of
from grammar import Grammar

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_together, written_whole
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.experiments.corpora import Collector, torn_archive_named
from fairseq_posattn.lab.experiments.recipe_content import Corpus
from fairseq_posattn.trees.conllu import block, read_labelled

GENERALIZATION = "gen"
GRAMMAR = "grammar"
ZIPS = ("generalization_sets.zip", "generalization_half.zip")
PASSWORD = "SLOG_PASSWORD"  # the variable of the environment
SHAPE, BLANK = "shape", "w"  # the target of tree_only
STRUCTURE = {*"(),=.?", "nmod"}  # with the roles, which stand before =


def collect(collector: Collector) -> None:
    """Write both sides of each text, with trees, alignments and categories."""
    for name in collector.content.corpus.names:
        start = collector.raw / name
        if collector.shell.does(f"write {start} from the published files"):
            write(start, published(collector, name), collector.languages)
        for language in collector.languages:
            collector.expect(f"{name}.{language}")
    if GRAMMAR in collector.recipe.controls:
        parse(collector, collector.content.corpus)


def parse(collector: Collector, corpus: Corpus) -> None:
    """Copy the texts, and parse them with the grammar of the training trees, which stay."""
    folder = collector.raw / GRAMMAR
    if not collector.shell.does(f"parse with the grammar of the training trees into {folder}"):
        return
    folder.mkdir(exist_ok=True)
    learnt = f"{corpus.train}.conllu"
    shutil.copyfile(collector.raw / learnt, folder / learnt)
    grammar = Grammar(read_labelled(folder / learnt))
    for name in corpus.names:
        for kind in ("align", *collector.languages):
            shutil.copyfile(collector.raw / f"{name}.{kind}", folder / f"{name}.{kind}")
        if name != corpus.train:
            texts = read_lines(folder / f"{name}.{collector.languages[0]}")
            with written_whole(folder / f"{name}.conllu") as file:
                for k, text in enumerate(texts, start=1):
                    file.write(block(text, grammar.parse(text.split()), k))


def published(collector: Collector, name: str) -> Path:
    """Return the file of a text: a table, or the zip with the generalization sets."""
    if name != GENERALIZATION:
        return collector.find(f"{name}.tsv")
    found = [path for path in map(collector.folder.joinpath, ZIPS) if path.exists()]
    if not found:
        raise InputError(f"{collector.folder}: there is no {' nor '.join(ZIPS)}; put one there")
    return found[0]


def write(start: Path, path: Path, languages: Sequence[str]) -> None:
    """Write the sentences of a file: their trees, both sides, alignments and categories."""
    kinds = ("conllu", *languages, "align", "category")
    with written_together([f"{start}.{kind}" for kind in kinds]) as files:
        for where, line in lines_of(path):
            try:
                parts = parts_of(line, words=SHAPE not in languages)
            except (InputError, ValueError, IndexError) as error:
                raise InputError(
                    f"{where}: this is no sentence, form and category of SLOG ({error}); get the "
                    "file again"
                ) from error
            for file, part in zip(files, parts, strict=True):
                file.write(part)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line of a file, or of the files in a zip, after its place."""
    if path.suffix != ".zip":
        yield from ((f"{path}:{k}", line) for k, line in enumerate(read_lines(path), start=1))
        return
    password = os.fsencode(os.environ.get(PASSWORD, ""))
    with torn_archive_named(str(path)), zipfile.ZipFile(path) as archive:
        for name in chosen(archive.namelist()):
            try:
                text = io.TextIOWrapper(archive.open(name, pwd=password), "utf-8")
                for k, line in enumerate(text, start=1):
                    yield f"{path}/{name}:{k}", line.rstrip("\n")
            except NotImplementedError:  # an unknown compression, which is a RuntimeError, too
                raise
            except RuntimeError as error:
                raise InputError(
                    f"{path}: {PASSWORD} has not the password that opens it; export the one that "
                    "the README of SLOG tells"
                ) from error


def chosen(names: list[str]) -> list[str]:
    """Return the files with variable-free forms, if their names say which these are."""
    tables = [name for name in names if name.endswith(".tsv")]
    return [name for name in tables if "varfree" in name.lower()] or tables


def parts_of(line: str, words: bool = True) -> list[str]:
    """Return what a line becomes in each of the files, which may go without its words."""
    sentence, form, category = line.split("\t")
    tree = tree_of(sentence, form)
    pairs = aligned(*zip(*tree, strict=True), read_form(form))
    if not words:
        tree = [(BLANK, parent, label) for _, parent, label in tree]
        sentence = " ".join(BLANK for _ in tree)
        form, pairs = shape(form.split(), pairs)
    rows = [f"{k}\t{w}\t_\tX\t_\t_\t{p}\t{label}\t_\t_" for k, (w, p, label) in enumerate(tree, 1)]
    alignment = " ".join(f"{word}-{at}" for at, word in pairs.items())
    conllu = "\n".join([f"# text = {sentence}", *rows])
    return [f"{conllu}\n\n", f"{sentence}\n", f"{form}\n", f"{alignment}\n", f"{category}\n"]


def shape(form: Sequence[str], pairs: Mapping[int, int]) -> tuple[str, dict[int, int]]:
    """Return a form with blanks for its words and without `*`, which only an article tells, and
    where its alignments are now."""
    parts, now = [], {}
    for place, (part, behind) in enumerate(zip(form, [*form[1:], ""], strict=True)):
        if part == "*":
            continue
        if place in pairs:
            now[len(parts)] = pairs[place]
        parts.append(part if part in STRUCTURE or behind == "=" else BLANK)
    return " ".join(parts), now
