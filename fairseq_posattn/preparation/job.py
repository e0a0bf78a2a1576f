"""The options and steps of a preparation, which converts a corpus to a data folder."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.records import at_least, between, one_of, option
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.jobs.lines import Answer, Combine, LineStep, concatenate_all
from fairseq_posattn.jobs.running import discard, do_lines, remove
from fairseq_posattn.jobs.step_records import File, Steps
from fairseq_posattn.preparation.corpus import ALIGN, Corpus, Treebanks
from fairseq_posattn.text.languages import find, lacks_spaces
from fairseq_posattn.text.pipeline import TextConfig, TextPipeline

TARGET_SEGMENTER = "segmenter.target"
STEP_SHARD = 25  # shards of other steps have this many times the lines of a parser shard


@dataclass(frozen=True)
class Learning:
    """Options for learning the segmenter from the training data."""

    symbols: int = option(
        "learn this many merges (subword-nmt) or pieces (sentencepiece) (default: %(default)s)",
        32000,
        at_least(1),
    )
    min_frequency: int = option(
        "with subword-nmt: merge only pairs that occur at least this often (default: %(default)s)",
        2,
        at_least(1),
    )
    model_type: str = option(
        "with sentencepiece: learn a model of this type (default: %(default)s)",
        "unigram",
        one_of("unigram", "bpe"),
    )
    character_coverage: float = option(
        "with sentencepiece: cover this share of all characters (default: %(default)s)",
        0.9995,
        between(0.0, 1.0),
    )
    separate: bool = option("learn separate pieces and dictionaries for each language", False)
    lines: int | None = option(
        "learn the pieces from N evenly spaced lines of each training text (default: all lines)",
        None,
        at_least(1),
        flag="--learn-lines",
    )


@dataclass(frozen=True)
class Limits:
    """Limits on the number of pieces on each side of a training pair, and on their ratio."""

    shortest: int = option(
        "drop training pairs in which a side has fewer pieces than this (default: %(default)s)",
        1,
        flag="--min-length",
    )
    longest: int = option(
        "drop training pairs in which a side has more pieces than this (default: %(default)s)",
        250,
        at_least(1),
        flag="--max-length",
    )
    ratio: float = option(
        "drop training pairs in which one side has more than this many times the pieces of the "
        "other (default: %(default)s)",
        3.0,
        flag="--max-ratio",
    )
    longest_source: int | None = option(
        "drop training pairs whose source has more pieces than this (default: the value of "
        "--max-length)",
        None,
        at_least(1),
        flag="--max-source-length",
    )

    def broken(self, source: int, target: int) -> str | None:
        """Return a description of the limit that a pair exceeds, or None."""
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


def set_values(options: Learning | Limits) -> dict[str, object]:
    """Return the options that are set, by name."""
    return {name: value for name, value in asdict(options).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options for the labels of trees."""

    label_subtypes: str = option(
        "keep the subtypes of relations such as acl:relcl, or cut them off (default); has no "
        "effect if the folder of --srcdict contains label dictionaries",
        "cut",
        one_of("cut", "keep"),
    )


@dataclass(frozen=True, kw_only=True)
class DataOptions(LabelOptions):
    """Options for the data folders."""

    binarize_workers: int = option(
        "binarise with this many processes of fairseq-preprocess, unless a text is long enough "
        "to be cut into shards (default: %(default)s)",
        1,
        between(1, 1024),
    )
    shards: int = option(
        "distribute the training data over this many data folders, OUT/shard0 and so on, of which "
        "fairseq loads one at a time; useful for very large corpora (default: %(default)s)",
        1,
        between(1, 1024),
    )
    alignments: bool = option(
        "read word alignments, such as 0-0 2-1 (source-target), from PREFIX.align or from the "
        "comment `align` of a treebank, for fairseq's criterion "
        "label_smoothed_cross_entropy_with_alignment",
        False,
    )
    align: str | None = option(
        "align the training pairs with eflomal, for --load-alignments", None, one_of("eflomal")
    )


@dataclass(frozen=True, kw_only=True)
class Job(DataOptions):
    """All inputs and options of a preparation.

    out: the data folder.
    work: the folder for intermediate files.
    """

    corpus: Corpus
    out: Path
    work: Path
    config: TextConfig
    treebanks: Treebanks = field(default_factory=Treebanks)
    learning: Learning = field(default_factory=Learning)
    limits: Limits = field(default_factory=Limits)
    cluster: Cluster = field(default_factory=Cluster)
    shard_lines: int = 2000

    @property
    def step_lines(self) -> int:
        return STEP_SHARD * self.shard_lines

    def file(self, split: str, kind: str) -> str:
        return str(self.work / f"{split}.{kind}")

    @property
    def variant(self) -> str:
        """The suffix of files and steps that depend on the trees.

        It allows data folders with the same words and different trees to share a work folder.
        """
        if self.config.control:
            return f".{self.config.control.tag}"
        return "" if self.config.parsed else ".no_trees"

    def step(self, name: str) -> str:
        return f"{name}{self.variant}"

    def kinds(self, split: str) -> list[str]:
        """Return the file suffixes of the source, target, trees and alignments."""
        trees = [f"{self.config.source}.trees"] if self.config.has_trees else []
        aligned = [ALIGN] if self.is_aligned(split) else []
        return [self.config.source, self.config.target, *trees, *aligned]

    def is_aligned(self, split: str) -> bool:
        """Return whether the data of a split contain alignments."""
        return self.reads_alignments(split) or bool(self.align and split == "train")

    def reads_alignments(self, split: str) -> bool:
        """Return whether alignments of a split are given; those of test sets are ignored."""
        return self.alignments and split in ("train", "valid")

    def pieces(self, split: str, kind: str) -> str:
        """Return the path of a file of pieces or trees."""
        return self.file(split, f"pieces{self.variant if kind.endswith('.trees') else ''}.{kind}")

    def clean(self, split: str) -> str:
        """Return the path prefix of the filtered pairs."""
        return self.file(split, f"clean{self.variant}")

    def segmenters(self) -> tuple[Path, Path]:
        """Return the files of the source and target segmenters, which may be the same file."""
        source = self.work / self.config.segmenter_file
        return source, self.work / TARGET_SEGMENTER if self.learning.separate else source


def suited_segmenter(source: str, target: str, train: str | None, out: Path) -> str:
    """Choose the segmenter for a corpus: subword-nmt, or sentencepiece for text without spaces.

    If the language is unknown, the training text is searched for spaces. If `out` already contains
    data segmented by subword-nmt, subword-nmt is returned. If the text has no spaces, the choice is
    explained in the log.

    train: the prefix of the training texts; None if the source is a treebank.
    """
    unspaced = []
    for name in (target,) if train is None else (source, target):
        found, text = find(name), f"{train}.{name}" if train else "the translations"
        if (train and lacks_spaces(read_lines(text))) if found is None else not found.spaced:
            unspaced.append(f"{text} ({found.name})" if found else text)
        elif found is None and train:
            say(f"{text}: '{name}' is not a known language, so words are split at spaces")
    if not unspaced:
        return "subword-nmt"
    why = f"{' and '.join(unspaced)}: the text has no spaces between words"
    if segmenter_there(source, target, out) == "subword-nmt":
        say(
            f"{why}, but the existing data in {out} were segmented by subword-nmt, so subword-nmt "
            "is used again; use --segmenter sentencepiece to change this"
        )
        return "subword-nmt"
    say(f"{why}, so sentencepiece segments both sides; use --segmenter to choose another segmenter")
    return "sentencepiece"


def segmenter_there(source: str, target: str, out: Path) -> str | None:
    """Return the segmenter of existing data in these languages, or None if there are no data."""
    for folder in (out, out / "shard0"):
        with contextlib.suppress(OSError, InputError):
            config = TextPipeline.load(folder).config
            if (config.source, config.target) == (source, target):
                return config.segmenter
    return None


class StepsByLines(Steps):
    """Runs the unfinished steps of a job; those that process lines independently run in shards."""

    def __init__(self, job: Job):
        super().__init__(job.work)
        self.job = job

    def do_lines(
        self,
        step: LineStep,
        others: Sequence[File] = (),
        check: Callable[[list[Answer]], object] = lambda answers: None,
    ) -> None:
        """Run a step unless it is already completed.

        others: additional files that the outputs depend on.
        check: a function that is called with the results of all shards. If it raises an InputError,
            the outputs are removed.
        """

        def checked() -> None:
            answers = self.run(step, keep=True)
            try:
                check(answers)
            except InputError:
                for path in step.outputs:
                    Path(path).unlink()
                raise

        inputs, forget = [*step.inputs, *others], partial(self.discard, step)
        self.do(step.name, step.choices, inputs, step.outputs, checked, forget)
        remove(self.folder(step))  # not earlier: a run that is killed before the record resumes

    def run(
        self, step: LineStep, combine: Combine = concatenate_all, keep: bool = False
    ) -> list[Answer]:
        cluster, lines = self.job.cluster.for_plain_work, self.job.step_lines
        if step.on_gpus:
            cluster, lines = self.job.cluster, self.job.shard_lines
        answers = do_lines(step, self.folder(step), cluster, lines, combine, keep=keep)
        assert answers is not None  # do_lines waits for Slurm by default
        return answers

    def discard(self, step: LineStep) -> None:
        discard(self.folder(step))

    def folder(self, step: LineStep) -> Path:
        """Return the folder of a step's shards; those of a parse are stored beside its output."""
        if step.on_gpus:
            return Path(f"{step.outputs[0]}.parts")
        return self.job.work / "shards" / step.name
