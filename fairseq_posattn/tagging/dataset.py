"""The binary data of the tagging task, which contain indices of words, characters and tags."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils, indexed_dataset
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches import checked_data
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.paths import refuse_file, refuse_to_delete
from fairseq_posattn.tagging.network import PADDING
from fairseq_posattn.tagging.sentences import TaggedSentence, TaggingData, read_tagged
from fairseq_posattn.tagging.vocabulary import KINDS, SETTINGS, Settings, Vocabulary, learn


class TaggingDataset(FairseqDataset):
    """Sentences as tensors of words, characters and, optionally, tags.

    chars: one tensor per sentence, in which each word ends with a padding symbol.
    by_length: whether batches consist of sentences of similar length.
    """

    def __init__(
        self,
        words: Sequence,
        chars: Sequence,
        tags: Sequence | None = None,
        by_length: bool = True,
    ):
        self.words, self.chars, self.tags = words, chars, tags
        self.by_length = by_length
        sizes = words.sizes if hasattr(words, "sizes") else [len(w) for w in words]
        self.sizes = np.asarray(sizes)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, k: int) -> dict:
        tags = None if self.tags is None else self.tags[k]
        return {"id": k, "words": self.words[k], "chars": self.chars[k], "tags": tags}

    def collater(self, sentences: list[dict]) -> dict:
        if not sentences:
            return {}
        words = padded([s["words"] for s in sentences])  # B T
        spellings, spelling_of = distinct(spellings_of_words([s["chars"] for s in sentences]))
        placed = torch.zeros_like(words)
        placed[words != PADDING] = spelling_of
        batch = {
            "id": torch.tensor([s["id"] for s in sentences]),
            "nsentences": len(sentences),
            "ntokens": int((words != PADDING).sum()),
            "net_input": {"words": words, "spellings": spellings, "spelling_of": placed},
        }
        if self.tags is not None:
            batch["target"] = padded([s["tags"] for s in sentences])
        return batch

    def num_tokens(self, k: int) -> int:
        return int(self.sizes[k])

    def num_tokens_vec(self, indices) -> np.ndarray:
        return self.sizes[indices]

    def size(self, k: int) -> int:
        return int(self.sizes[k])

    def ordered_indices(self) -> np.ndarray:
        """Return the indices of all sentences in a new random order.

        With `by_length`, the shortest sentences come first, and only sentences of the same length
        are in random order.
        """
        order = np.random.permutation(len(self))
        if not self.by_length:
            return order
        return order[np.argsort(self.sizes[order], kind="stable")]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return False  # batches are created anew in each epoch


def check_parts(prefix: str, words, chars, tags) -> None:
    """Raise an InputError if the files of words, characters and tags do not match.

    Each sentence must have as many tags as words, and one padding symbol after the characters of
    each word.
    """
    for name, part in (("char", chars), ("tag", tags)):
        if len(part) != len(words):
            raise of_another_set(prefix, name, f"{len(part)} sentences instead of {len(words)}")
    if (numbers_of(words) == PADDING).any():
        raise of_another_set(prefix, "word", "padding among the words")
    ends = numbers_of(chars) == PADDING
    after = np.cumsum(chars.sizes, dtype=np.int64)
    ends_until = np.concatenate([[0], np.cumsum(ends)])
    words_of_chars = ends_until[after] - ends_until[after - chars.sizes]
    for name, lengths in (("tag", tags.sizes), ("char", words_of_chars)):
        if (differs := np.flatnonzero(lengths != words.sizes)).size:
            raise of_another_set(prefix, name, f"a different length for sentence {differs[0] + 1}")
    if words.sizes.min() < 1 or not ends[after - 1].all():
        raise of_another_set(
            prefix, "char", "a sentence without words, or a word without an end symbol"
        )


def numbers_of(part) -> np.ndarray:
    """Return the concatenated indices of all sentences in a memory-mapped dataset."""
    return np.frombuffer(part._bin_buffer, part._index.dtype)


def of_another_set(prefix: str, name: str, found: str) -> InputError:
    """Return the error for a file that does not match the words of the same split."""
    return InputError(
        f"{prefix}.{name}.bin: found {found}, so the files of this split are damaged or do not "
        "match; make the data again with posattn binarize-tagging"
    )


def padded(rows: list[Tensor]) -> Tensor:
    return data_utils.collate_tokens([row.long() for row in rows], PADDING)


def spellings_of_words(chars: list[Tensor]) -> np.ndarray:
    """Return the characters of each word as an array of shape (words, characters).

    chars: the characters of each sentence.
    """
    flat = torch.cat(list(chars)).numpy()
    ends = np.flatnonzero(flat == PADDING)
    starts = np.concatenate([[0], ends[:-1] + 1])
    columns = np.arange((ends - starts).max())
    index = starts[:, None] + columns
    inside = index < ends[:, None]
    return np.where(inside, flat[np.minimum(index, len(flat) - 1)], PADDING)


def distinct(spellings: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of `spellings`, and the index of each row among them.

    If `spellings` has the shape (N, C) and U distinct rows, the results have the shapes (U, C) and
    (N,). A word that occurs several times in a batch is thus encoded only once.
    """
    keys = np.ascontiguousarray(spellings).view([("", spellings.dtype)] * spellings.shape[1])
    _, first, row_of = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    return torch.from_numpy(spellings[first]).long(), torch.from_numpy(row_of.ravel())


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
    """Raise an InputError for invalid options."""
    if min(args.max_words, args.max_chars) < 1:
        raise InputError("--max-words and --max-chars must be at least 1; give a larger number")
    refuse_file(Path(args.destdir))
    if args.overwrite:
        refuse_to_delete(Path(args.destdir), SETTINGS, "tagging data")


def read_set(path: str, column: str) -> list[TaggedSentence]:
    """Read the sentences of a file; raise an InputError if no word has a tag."""
    sentences = list(read_tagged(path, column))
    if not sentences:
        raise InputError(f"{path}: the file contains no sentences; use another file")
    if not any(tag for sentence in sentences for tag in sentence.tags):
        raise InputError(f"{path}: no tags found; add tags, or change --column {column} (CoNLL-U)")
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
