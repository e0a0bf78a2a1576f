"""Extract the texts of SLOG (Li et al. 2023), with trees and alignments of words and forms.

Each line of a file, or of a file in the zip, contains a sentence, its variable-free form and its
category. SLOG's authors encrypt the zip so that no language model is trained on it; this program
reads it without unpacking it. The extracted texts are written to the work folder.

Subfolders contain texts with other trees or examples:

grammar, local: a parser, trained on the gold trees of the training text, parses the others.
recombined: the training text has additional examples (recombine.py), with gold trees.
recombined_local: as local, but the parser is trained for longer, and on the additional examples.
recombined_chain: the texts of recombined, with chains.
"""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from alignments import aligned
from forms import read_form, tree_of
from grammar import Grammar
from recombine import recombined

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import Collector, torn_archive_named
from fairseq_posattn.files.atomic import written_together, written_whole
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.text.parsing.local_parser import LocalParser
from fairseq_posattn.text.parsing.local_training import UPDATES, train_local
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.stanza_parser import at_spaces
from fairseq_posattn.text.parsing.trainers import FULL, SMALL
from fairseq_posattn.trees.conllu import block, read_labelled
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.sentence import Sentence

GENERALIZATION = "gen"
ZIPS = ("generalization_sets.zip", "generalization_half.zip")
RECOMBINED, NEW = "recombined", 10_000  # name of the text, and the number of new examples
PASSWORD = "SLOG_PASSWORD"  # name of the environment variable
SHAPE, BLANK = "shape", "w"  # target language and blank of slog/tree_only
STRUCTURE = {*"(),=.?", "nmod"}  # not replaced by BLANK; roles, which precede =, are not, either


def collect(collector: Collector) -> None:
    """Write both sides of each text, with trees, alignments and categories."""
    texts, controls = collector.content.corpus.names, collector.recipe.controls
    for name in texts:
        start = collector.raw / name
        if collector.shell.does(f"write {start} from the published files"):
            write(start, lines_of(published(collector, name)), collector.languages)
        for language in collector.languages:
            collector.expect(f"{name}.{language}")
    folder = collector.raw / RECOMBINED
    needed = any(trees.startswith(RECOMBINED) for trees in controls)
    if needed and collector.shell.does(f"recombine training examples into {folder}"):
        folder.mkdir(exist_ok=True)
        for name in texts:
            lines = lines_of(published(collector, name))
            new = with_recombined(lines) if name == collector.content.corpus.train else lines
            write(folder / name, new, collector.languages)
    for trees, (base, parser) in PARSERS.items():
        if trees in controls:
            parse(collector, collector.raw / base, collector.raw / trees, parser)


def with_recombined(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the lines, followed by those of the new examples."""
    examples = []
    for where, line in lines:
        yield where, line
        words, form, _ = line.split("\t")
        examples.append((words.split(), form.split()))
    for words, form in recombined(examples, min(NEW, len(examples))):
        yield RECOMBINED, "\t".join([" ".join(words), " ".join(form), RECOMBINED])


def parse(collector: Collector, base: Path, folder: Path, parser: Training) -> None:
    """Copy the texts, with trees found by a parser that is trained on the training trees.

    The training text keeps its gold trees, unless the trees are chains.
    """
    if not collector.shell.does(f"train a parser on the trees of {base}, and parse into {folder}"):
        return
    folder.mkdir(exist_ok=True)
    corpus = collector.content.corpus
    learnt = f"{corpus.train}.conllu"
    shutil.copyfile(base / learnt, folder / learnt)
    parsed = parser(read_labelled(folder / learnt), folder)
    for name in corpus.names:
        for kind in ("align", *collector.languages):
            shutil.copyfile(base / f"{name}.{kind}", folder / f"{name}.{kind}")
        if name != corpus.train or parser is chained:
            texts = list(read_lines(folder / f"{name}.{collector.languages[0]}"))
            with written_whole(folder / f"{name}.conllu") as file:
                for k, (text, tree) in enumerate(zip(texts, parsed(texts), strict=True), start=1):
                    file.write(block(text, tree, k))


Parser = Callable[[Sequence[str]], Iterable[Sentence]]
Training = Callable[[Iterable[Sentence], Path], Parser]


def counted(trees: Iterable[Sentence], folder: Path) -> Parser:
    """Return the parser of grammar.py."""
    grammar = Grammar(trees)
    return lambda texts: (grammar.parse(text.split()) for text in texts)


def local(trees: Iterable[Sentence], folder: Path, size: str = SMALL.name) -> Parser:
    """Train a local parser (posattn train-parser --kind local), and store it in the folder."""
    train_local(list(trees), folder, UPDATES[size])
    return LocalParser(ParserSettings("local", model_dir=str(folder))).parse


def chained(trees: Iterable[Sentence], folder: Path) -> Parser:
    """Return a parser whose trees are chains."""
    chain = TreeControl("chain")
    return lambda texts: (chain.of(at_spaces(text)) for text in texts)


PARSERS: dict[str, tuple[str, Training]] = {  # trees -> the texts, and their parser
    "grammar": ("", counted),
    "local": ("", local),
    "recombined_local": (RECOMBINED, partial(local, size=FULL.name)),
    "recombined_chain": (RECOMBINED, chained),
}


def published(collector: Collector, name: str) -> Path:
    """Return the published file of a text: a .tsv file, or the zip with generalisation sets."""
    if name != GENERALIZATION:
        return collector.find(f"{name}.tsv")
    found = [path for path in map(collector.folder.joinpath, ZIPS) if path.exists()]
    if not found:
        raise InputError(f"{collector.folder} has no {' or '.join(ZIPS)}; copy one of them there")
    return found[0]


def write(start: Path, lines: Iterable[tuple[str, str]], languages: Sequence[str]) -> None:
    """Write trees, both sides, alignments and categories of published lines to START.*."""
    kinds = ("conllu", *languages, "align", "category")
    with written_together([f"{start}.{kind}" for kind in kinds]) as files:
        for where, line in lines:
            try:
                parts = parts_of(line, words=SHAPE not in languages)
            except (InputError, ValueError, IndexError) as error:
                raise InputError(
                    f"{where}: the line does not contain a sentence, form and category of SLOG "
                    f"({error}); download the file again"
                ) from error
            for file, part in zip(files, parts, strict=True):
                file.write(part)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (FILE:LINE, text) for each line of a file, or of the files in a zip."""
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
            except NotImplementedError:  # unknown compression; a subclass of RuntimeError
                raise
            except RuntimeError as error:
                raise InputError(
                    f"{path}: {PASSWORD} does not contain the right password; export the one from "
                    "the README of SLOG"
                ) from error


def chosen(names: list[str]) -> list[str]:
    """Return the files with variable-free forms if their names show this, otherwise all files."""
    tables = [name for name in names if name.endswith(".tsv")]
    return [name for name in tables if "varfree" in name.lower()] or tables


def parts_of(line: str, words: bool = True) -> list[str]:
    """Return the text of a line for each output file; without `words`, words become blanks."""
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
    """Return a form with blanks for words and without `*`, and its renumbered alignments.

    `*` marks definite nouns, which cannot be recognised without words.
    """
    parts, now = [], {}
    for place, (part, behind) in enumerate(zip(form, [*form[1:], ""], strict=True)):
        if part == "*":
            continue
        if place in pairs:
            now[len(parts)] = pairs[place]
        parts.append(part if part in STRUCTURE or behind == "=" else BLANK)
    return " ".join(parts), now
