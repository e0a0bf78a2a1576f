"""Tagged sentences -> dictionaries and binary data for the tagging task."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq.data import indexed_dataset

from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.patches import checked_data
from fairseq_posattn.io.atomic import folder_written_whole
from fairseq_posattn.io.paths import refuse_file
from fairseq_posattn.tagging.sentences import TAG_COLUMNS, TaggedSentence, read_tagged
from fairseq_posattn.tagging.vocabulary import KINDS, SETTINGS, Settings, Vocabulary, learn


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="posattn-binarize-tagging", description=__doc__)
    parser.add_argument("--train", required=True, metavar="FILE", help="CoNLL-U or two columns")
    parser.add_argument("--valid", required=True, metavar="FILE")
    parser.add_argument(
        "--test", nargs="*", default=[], metavar="FILE", help="sets test, test1, ..."
    )
    parser.add_argument("--destdir", required=True, metavar="DIR")
    parser.add_argument(
        "--column", choices=list(TAG_COLUMNS), default="upos", help="of CoNLL-U (default: upos)"
    )
    parser.add_argument(
        "--words",
        default="50%",
        help="size of the vocabulary: a number, or a share of all words (default: 50%%)",
    )
    parser.add_argument(
        "--words-from-train", action="store_true", help="vocabulary from --train alone"
    )
    parser.add_argument(
        "--max-words", type=int, default=60, help="longer sentences are cut (default: 60)"
    )
    parser.add_argument(
        "--max-chars", type=int, default=20, help="longer words are truncated (default: 20)"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace DESTDIR if it is there already"
    )
    return parser


def binarize(args: Namespace) -> Vocabulary:
    """Make the folder `args.destdir`; nothing appears under its name before it is complete."""
    checked_data.install()
    check(args)
    sets = {name: read_set(path, args.column) for name, path in named_files(args)}
    train = sets["train"]
    settings = Settings(args.column, args.max_words, args.max_chars)
    sources = [train] if args.words_from_train else sets.values()
    vocabulary = learn(train, [s for part in sources for s in part], args.words, settings)
    with folder_written_whole(args.destdir, args.overwrite) as partial:
        vocabulary.save(partial)
        for name, sentences in sets.items():
            write_set(partial / name, sentences, vocabulary)
    return vocabulary


def named_files(args: Namespace) -> Iterator[tuple[str, str]]:
    yield "train", args.train
    yield "valid", args.valid
    for k, path in enumerate(args.test):
        yield f"test{k or ''}", path


def check(args: Namespace) -> None:
    if min(args.max_words, args.max_chars) < 1:
        raise InputError("--max-words and --max-chars: at least 1")
    folder = Path(args.destdir)
    refuse_file(folder)
    filled = folder.exists() and any(folder.iterdir())
    if args.overwrite and filled and not (folder / SETTINGS).exists():
        raise InputError(
            f"{folder}: holds no {SETTINGS}, so it is not data of this program, and "
            "--overwrite won't delete it; remove it yourself"
        )


def read_set(path: str, column: str) -> list[TaggedSentence]:
    sentences = list(read_tagged(path, column))
    if not sentences:
        raise InputError(f"{path}: the file has no sentences")
    if not any(tag for sentence in sentences for tag in sentence.tags):
        raise InputError(f"{path}: no word has a tag ({column}); choose another --column")
    return sentences


def write_set(prefix: Path, sentences: list[TaggedSentence], vocabulary: Vocabulary) -> None:
    dictionaries = (vocabulary.words, vocabulary.chars, vocabulary.tags)
    builders = [
        indexed_dataset.make_builder(f"{prefix}.{kind}.bin", "mmap", vocab_size=len(dictionary))
        for kind, dictionary in zip(KINDS, dictionaries, strict=True)
    ]
    for sentence in sentences:
        for numbers in numbers_of_pieces(sentence, vocabulary):
            for builder, row in zip(builders, numbers, strict=True):
                builder.add_item(torch.tensor(row))
    for kind, builder in zip(KINDS, builders, strict=True):
        builder.finalize(f"{prefix}.{kind}.idx")


def numbers_of_pieces(sentence: TaggedSentence, vocabulary: Vocabulary) -> Iterator[tuple]:
    """Words, characters and tags of each piece of a sentence; a word without a tag: padding."""
    pieces = zip(vocabulary.pieces(sentence.words), vocabulary.pieces(sentence.tags), strict=True)
    for words, tags in pieces:
        numbers = [
            vocabulary.tags.pad() if tag is None else vocabulary.tags.numbers([tag])[0]
            for tag in tags
        ]
        yield vocabulary.words.numbers(words), vocabulary.spellings(words), numbers


def describe(vocabulary: Vocabulary) -> str:
    words, chars, tags = map(len, (vocabulary.words, vocabulary.chars, vocabulary.tags))
    return (
        f"{words} words ({len(vocabulary.ambiguous)} ambiguous), {chars} characters, "
        f"{tags} labels, padding and unknown counted"
    )
