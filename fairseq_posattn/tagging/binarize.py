"""Build dictionaries and binary data for the tagging task from tagged sentences."""

from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq.data import indexed_dataset

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches import checked_data
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.paths import refuse_file
from fairseq_posattn.tagging.sentences import TaggedSentence, TaggingData, read_tagged
from fairseq_posattn.tagging.vocabulary import KINDS, SETTINGS, Settings, Vocabulary, learn


def binarize(args: TaggingData) -> Vocabulary:
    """Write the data to the folder `args.destdir` atomically, and return the vocabulary."""
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
        checked_data.write_checksums(partial)
    return vocabulary


def named_files(args: TaggingData) -> Iterator[tuple[str, str]]:
    """Yield the name and the file of each split."""
    yield "train", args.train
    yield "valid", args.valid
    for k, path in enumerate(args.test):
        yield f"test{k or ''}", path


def check(args: TaggingData) -> None:
    """Raise an InputError for invalid combinations of options."""
    if min(args.max_words, args.max_chars) < 1:
        raise InputError("--max-words and --max-chars must be at least 1; give a larger number")
    folder = Path(args.destdir)
    refuse_file(folder)
    filled = folder.exists() and any(folder.iterdir())
    if args.overwrite and filled and not (folder / SETTINGS).exists():
        raise InputError(
            f"{folder}: the folder contains no {SETTINGS}, so it is not a folder of tagging data, "
            "and --overwrite does not delete it; delete the folder yourself"
        )


def read_set(path: str, column: str) -> list[TaggedSentence]:
    """Read the sentences of a file; raise an InputError if no word has a tag."""
    sentences = list(read_tagged(path, column))
    if not sentences:
        raise InputError(f"{path}: the file contains no sentences; use another file")
    if not any(tag for sentence in sentences for tag in sentence.tags):
        raise InputError(f"{path}: no word has a tag in column {column}; choose another --column")
    return sentences


def write_set(prefix: Path, sentences: list[TaggedSentence], vocabulary: Vocabulary) -> None:
    """Binarise the words, characters and tags of a split."""
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
    """Yield the indices of words, characters and tags for each part of a sentence.

    Sentences of more than --max-words words have several parts. Missing tags become padding.
    """
    pieces = zip(vocabulary.pieces(sentence.words), vocabulary.pieces(sentence.tags), strict=True)
    for words, tags in pieces:
        numbers = [
            vocabulary.tags.pad() if tag is None else vocabulary.tags.numbers([tag])[0]
            for tag in tags
        ]
        yield vocabulary.words.numbers(words), vocabulary.spellings(words), numbers


def describe(vocabulary: Vocabulary) -> str:
    """Return a log line with the sizes of the dictionaries."""
    words, chars, tags = map(len, (vocabulary.words, vocabulary.chars, vocabulary.tags))
    return (
        f"the dictionaries have {words} words ({len(vocabulary.ambiguous)} are ambiguous), "
        f"{chars} characters and {tags} tags, each including padding and unknown"
    )
