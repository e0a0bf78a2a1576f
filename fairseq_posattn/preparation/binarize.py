"""Build a data folder for fairseq-train from segmented text and its trees.

For each split, PREFIX.SRC.trees must contain the trees of the source text PREFIX.SRC, unless
--no-trees is given. fairseq-preprocess builds the dictionaries and binarises the text.
"""

import codecs
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from fairseq import options
from fairseq.data import indexed_dataset
from fairseq_cli import preprocess

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.label_dictionaries import LabelDictionaries
from fairseq_posattn.fairseq_plugin.patches import checked_data
from fairseq_posattn.fairseq_plugin.tree_data import write_tree_file
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.files import read_lines, same_number_of_lines
from fairseq_posattn.files.paths import (
    refuse_file,
    refuse_separator,
    refuse_split_path,
    refuse_to_delete,
)
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.requests import add_options
from fairseq_posattn.preparation.job import LabelOptions
from fairseq_posattn.trees.lines import read_trees

LOG = "preprocess.log"


def parser() -> ArgumentParser:
    """Return a parser with all options of fairseq-preprocess and of this command."""
    parser = options.get_preprocessing_parser()
    parser.prog, parser.description = "posattn binarize", __doc__
    parser.add_argument(
        "--overwrite", action="store_true", help="replace DESTDIR if it exists already"
    )
    parser.add_argument(
        "--no-trees", action="store_true", help="omit trees, for models that do not need them"
    )
    add_options(parser, LabelOptions)
    return parser


def binarize(args: Namespace, add: Callable[[Path], None] = lambda folder: None) -> None:
    """Write the data to the folder `args.destdir` atomically.

    add: a function that is called with the temporary folder, to add further files.
    """
    checked_data.install()
    check_options(args)
    for prefix in splits(args).values():
        check_files(prefix, args)
    with folder_written_whole(args.destdir, args.overwrite) as partial:
        args.destdir = str(partial)
        _run_fairseq(args)
        dictionaries = None if args.no_trees else label_dictionaries(args, partial)
        for name, prefix in splits(args).items():
            check_sentences(name, prefix, args)
            if not args.no_trees:
                path = f"{prefix}.{args.source_lang}.trees"
                trees = Progress(read_trees(path), same_number_of_lines([path]))
                source = preprocess.dataset_dest_prefix(args, name, args.source_lang)
                write_tree_file(source, iter(trees), dictionaries)
        add(partial)
        checked_data.write_checksums(partial)


def splits(args: Namespace) -> dict[str, str]:
    """Return the path prefix of each split; the keys are fairseq's names, such as valid1."""
    named = {"train": args.trainpref} if args.trainpref else {}
    for name, prefixes in (("valid", args.validpref), ("test", args.testpref)):
        for k, prefix in enumerate(prefixes.split(",") if prefixes else []):
            named[f"{name}{k or ''}"] = prefix
    return named


def languages(args: Namespace) -> list[str]:
    return [args.source_lang] if args.only_source else [args.source_lang, args.target_lang]


def check_options(args: Namespace) -> None:
    """Raise an InputError for invalid combinations of options."""
    for prefixes in filter(None, (args.validpref, args.testpref)):
        refuse_split_path(prefixes, ",", lambda prefix: exists(prefix, args))
    refuse_separator("--destdir", args.destdir, ":")
    if not all(languages(args)):
        raise InputError(
            "a language is missing; give the suffixes of the text files with --source-lang and, "
            "unless --only-source is set, --target-lang"
        )
    if args.dataset_impl != "mmap":
        raise InputError(
            f"--dataset-impl {args.dataset_impl} is not supported; omit this option to write the "
            "default format, mmap"
        )
    refuse_file(Path(args.destdir))
    if args.overwrite:
        refuse_to_delete(args.destdir, LOG, "binarised data")


def exists(prefix: str, args: Namespace) -> bool:
    """Return whether there is a text file with this prefix in one of the languages."""
    return any(Path(f"{prefix}.{language}").exists() for language in languages(args))


def check_files(prefix: str, args: Namespace) -> None:
    """Raise an InputError if the texts and trees of a split do not match."""
    texts = [f"{prefix}.{language}" for language in languages(args)]
    trees = [] if args.no_trees else [f"{texts[0]}.trees"]
    if same_number_of_lines([*texts, *trees]) == 0:
        raise InputError(f"{texts[0]}: the file is empty; use a file that contains text")
    for text in texts:
        _check_text(text)
    for path in trees:
        _check_pieces(texts[0], path)


def _check_text(text: str) -> None:
    """Raise an InputError for a byte order mark or carriage return, which fairseq misreads."""
    with open(text, "rb") as file:
        if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
            raise InputError(
                f"{text}:1: the line begins with a byte order mark, which fairseq would read as "
                "part of the first word; remove it with sed -i '1s/^\\xef\\xbb\\xbf//'"
            )
    for number, line in enumerate(read_lines(text), start=1):
        if "\r" in line:
            raise InputError(
                f"{text}:{number}: the line contains a carriage return, at which fairseq would "
                "split it; remove it with tr -d '\\r'"
            )


def _check_pieces(source: str, trees: str) -> None:
    lines = zip(read_lines(source), read_trees(trees), strict=True)
    first: dict[bool, int] = {}  # whether a line has labels -> the first such line
    for number, (line, (_, counts, labels)) in enumerate(Progress(lines), start=1):
        if counts and first.setdefault(labels is not None, number) == number and len(first) == 2:
            raise InputError(
                f"{trees}:{number}: the line has {'no ' if labels is None else ''}word labels, "
                f"unlike line {first[labels is None]}; project all trees with posattn project "
                "--labels, or all without it"
            )
        if (pieces := len(line.split())) != sum(counts):  # fairseq splits at any whitespace, too
            raise InputError(
                f"{trees}:{number}: the tree has {sum(counts)} pieces, but {source}:{number} has "
                f"{pieces}; project the trees onto this file"
            )


def _run_fairseq(args: Namespace) -> None:
    propagate, preprocess.logger.propagate = preprocess.logger.propagate, False
    try:  # fairseq's log, which lists all options, is written to preprocess.log only
        preprocess.main(args)
    except AssertionError as error:  # fairseq rejects options with assertions
        raise InputError(str(error)) from error
    finally:  # fairseq does not close its log
        preprocess.logger.propagate = propagate
        for handler in list(preprocess.logger.handlers):
            if isinstance(handler, logging.FileHandler):
                preprocess.logger.removeHandler(handler)
                handler.close()


def check_sentences(name: str, prefix: str, args: Namespace) -> None:
    """Raise an InputError if fairseq has not binarised each line exactly once.

    fairseq's workers split a file at byte offsets, and may therefore miss a line.
    """
    expected = same_number_of_lines([f"{prefix}.{args.source_lang}"])
    for language in languages(args):
        data = preprocess.dataset_dest_prefix(args, name, language)
        if (found := len(indexed_dataset.make_dataset(data, "mmap"))) != expected:
            raise InputError(
                f"{prefix}.{language}: fairseq binarised {found} sentences, but the file has "
                f"{expected} lines; use fewer --workers"
            )


def label_dictionaries(args: Namespace, folder: Path) -> LabelDictionaries | None:
    """Write the label dictionaries to a data folder and return them; return None without labels.

    If the folder of --srcdict contains label dictionaries, they are copied; otherwise, they are
    built from the training data.
    """
    language, found = args.source_lang, None
    if args.srcdict:
        found = LabelDictionaries.load(Path(args.srcdict).parent, language)
    if found is None and args.trainpref:
        trees = read_trees(f"{args.trainpref}.{language}.trees")
        labels = (tree.labels for tree in trees if tree.labels is not None)
        if (first := next(labels, None)) is not None:
            found = LabelDictionaries.of(chain([first], labels), args.label_subtypes == "keep")
    if found is not None:
        found.save(folder, language)
    return found
