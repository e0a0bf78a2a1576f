"""Describe what a data directory is made from, and how."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import few, option, positive, share
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.progress import say
from fairseq_posattn.preparation.corpus import ALIGN, Corpus, Treebanks
from fairseq_posattn.text.languages import find, lacks_spaces
from fairseq_posattn.text.pipeline import TextConfig, TextPipeline
from fairseq_posattn.work.cluster import Cluster

TARGET_SEGMENTER = "segmenter.target"
SUBTYPES = ("cut", "keep")
STEP_SHARD = 25  # the shards of other steps have so many times the lines of those of the parse


@dataclass(frozen=True)
class Learning:
    """These options say how the pieces are learnt from the training data."""

    symbols: int = option(
        "learn this many merges of subword-nmt, or pieces of sentencepiece (default: %(default)s)",
        32000,
        type=positive,
    )
    min_frequency: int = option(
        "with subword-nmt: merge only pairs that occur at least this often (default: %(default)s)",
        2,
        type=positive,
    )
    model_type: str = option(
        "with sentencepiece: learn a model of this type (default: %(default)s)",
        "unigram",
        choices=("unigram", "bpe"),
    )
    character_coverage: float = option(
        "with sentencepiece: cover this share of all characters (default: %(default)s)",
        0.9995,
        type=share,
    )
    separate: bool = option("learn pieces and a dictionary for each language separately", False)
    lines: int | None = option(
        "learn the pieces from N lines of each training text, which lie evenly in it (default: "
        "from all lines)",
        None,
        flag="--learn-lines",
        type=positive,
    )

    @property
    def chosen(self) -> dict[str, object]:
        """Return all options that there are, by their names."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Limits:
    """These limits say how many pieces the sides of a training pair may have."""

    shortest: int = option(
        "drop pairs with a side of fewer pieces (default: %(default)s)", 1, flag="--min-length"
    )
    longest: int = option(
        "drop pairs with a side of more pieces (default: %(default)s)",
        250,
        flag="--max-length",
        type=positive,
    )
    ratio: float = option(
        "drop pairs in which one side is more than this many times longer (default: %(default)s)",
        3.0,
        flag="--max-ratio",
    )
    longest_source: int | None = option(
        "keep only training pairs whose source has at most this many pieces (default: as "
        "--max-length)",
        None,
        flag="--max-source-length",
        type=positive,
    )

    @property
    def chosen(self) -> dict[str, float]:
        """Return all limits that there are, by their names."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def broken(self, source: int, target: int) -> str | None:
        """Return the rule by which a pair with these numbers of pieces is dropped, or None."""
        shorter, longer = sorted((source, target))
        if shorter < self.shortest:
            return f"under {self.shortest} (--min-length)" if shorter else "with an empty side"
        if longer > self.longest:
            return f"over {self.longest} (--max-length)"
        if self.longest_source is not None and source > self.longest_source:
            return f"with a source over {self.longest_source} (--max-source-length)"
        if longer > self.ratio * max(shorter, 1):
            return f"over a ratio of {self.ratio:g} (--max-ratio)"
        return None


@dataclass(frozen=True)
class Job:
    """A job says all that a data directory is made from."""

    corpus: Corpus
    out: Path
    work: Path
    config: TextConfig
    treebanks: Treebanks = field(default_factory=Treebanks)
    learning: Learning = field(default_factory=Learning)
    limits: Limits = field(default_factory=Limits)
    cluster: Cluster = field(default_factory=Cluster)
    shard_lines: int = 2000
    binarize_workers: int = option(
        "binarise a text that is not cut into shards with this many processes of "
        "fairseq-preprocess (default: %(default)s)",
        1,
        type=few,
    )
    shards: int = option(
        "make this many data folders, OUT/shard0 and so on, of which fairseq holds one at a time; "
        "very large corpora need them (default: %(default)s)",
        1,
        type=few,
    )
    alignments: bool = option(
        "read from PREFIX.align, or from the comment `align` of a treebank, from which word of the "
        "source each word of the target comes, such as 0-0 2-1; fairseq's criterion "
        "label_smoothed_cross_entropy_with_alignment teaches them",
        False,
    )
    label_subtypes: str = "cut"

    def __post_init__(self) -> None:
        if self.alignments and not self.config.splits_words:
            raise InputError(
                "--alignments: they are between words, which the pieces of sentencepiece do not "
                "keep apart; take --segmenter subword-nmt or words"
            )

    @property
    def step_lines(self) -> int:
        """Return how many lines a shard has of a step that takes less time than the parse."""
        return STEP_SHARD * self.shard_lines

    def file(self, split: str, kind: str) -> str:
        """Return the path of a file between the steps."""
        return str(self.work / f"{split}.{kind}")

    @property
    def variant(self) -> str:
        """Return what the names of files and steps end in that depend on the trees.

        So several data directories, with the same words and other trees, share a work folder.
        """
        if self.config.control:
            return f".{self.config.control.tag}"
        return "" if self.config.parsed else ".no_trees"

    def step(self, name: str) -> str:
        """Return the name of a step that depends on the trees."""
        return f"{name}{self.variant}"

    def kinds(self, split: str) -> list[str]:
        """Return how the names of the files end that hold source, target, trees and alignments."""
        trees = [f"{self.config.source}.trees"] if self.config.has_trees else []
        aligned = [ALIGN] if self.is_aligned(split) else []
        return [self.config.source, self.config.target, *trees, *aligned]

    def is_aligned(self, split: str) -> bool:
        """Return whether there are alignments of a split; fairseq reads none of tests."""
        return self.alignments and split in ("train", "valid")

    def pieces(self, split: str, kind: str) -> str:
        """Return the path of the pieces of a language, or of their trees."""
        return self.file(split, f"pieces{self.variant if kind.endswith('.trees') else ''}.{kind}")

    def clean(self, split: str) -> str:
        """Return the prefix of the pairs that are kept."""
        return self.file(split, f"clean{self.variant}")

    def segmenters(self) -> tuple[Path, Path]:
        """Return the files of the segmenters of source and target, which may be the same."""
        source = self.work / self.config.segmenter_file
        return source, self.work / TARGET_SEGMENTER if self.learning.separate else source


def add_label_subtypes(group: argparse._ActionsContainer) -> None:
    """Add the option --label-subtypes to a parser or a group."""
    group.add_argument(
        "--label-subtypes",
        choices=SUBTYPES,
        default="cut",
        help="keep the subtypes of relations such as acl:relcl, or cut them off (default); "
        "dictionaries of labels beside --srcdict decide it by themselves",
    )


def suited_segmenter(source: str, target: str, train: str | None, out: Path) -> str:
    """Return what splits both sides of a corpus best, and say why where it may surprise.

    train: the prefix of its texts; None if the source has spaces between the words of a treebank.
    Of a name that means no known language, the training text shows whether it has spaces. Data that
    are in the folder already keep what has split them.
    """
    unspaced = []
    for name in (target,) if train is None else (source, target):
        found, text = find(name), f"{train}.{name}" if train else "the translations"
        if (train and lacks_spaces(read_lines(text))) if found is None else not found.spaced:
            unspaced.append(f"{text} ({found.name})" if found else text)
        elif found is None and train:
            say(f"{text}: '{name}' is no known language, so it is treated as text with spaces")
    if not unspaced:
        return "subword-nmt"
    why = f"{' and '.join(unspaced)}: there are no spaces between words"
    if segmenter_there(source, target, out) == "subword-nmt":
        say(
            f"{why}, but the data in {out} were split by subword-nmt, and they stay so: models "
            "know their pieces; --segmenter sentencepiece makes others"
        )
        return "subword-nmt"
    say(f"{why}, so sentencepiece splits both sides; --segmenter chooses otherwise")
    return "sentencepiece"


def segmenter_there(source: str, target: str, out: Path) -> str | None:
    """Return what split the data of these languages that are in a folder already, if any."""
    for folder in (out, out / "shard0"):
        with contextlib.suppress(OSError, InputError):
            config = TextPipeline.load(folder).config
            if (config.source, config.target) == (source, target):
                return config.segmenter
    return None
