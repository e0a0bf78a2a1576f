"""Raw parallel text -> a data directory: normalise, tokenise, parse, segment, project, filter,
binarise. Each step is done once; killed at any moment, the next run goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from fairseq_posattn.command_line import progress
from fairseq_posattn.files import (
    InputError,
    read_lines,
    same_number_of_lines,
    written_together,
    written_whole,
)
from fairseq_posattn.io.lists import refuse_separator
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.paths import refuse_file
from fairseq_posattn.parsing.cluster import Cluster
from fairseq_posattn.parsing.run import discard, parse
from fairseq_posattn.preparation import binarize, segment
from fairseq_posattn.preparation.choices import FILE, Choices, Preparation
from fairseq_posattn.preparation.extract import extract
from fairseq_posattn.preparation.project import ProjectionInputs, project
from fairseq_posattn.preparation.steps import Steps, say
from fairseq_posattn.segmenters import Segmentation, Segmenter, SentencePiece, SubwordNmt

TARGET_SEGMENTER = "segmenter.target"


@dataclass(frozen=True)
class Learning:
    """How the pieces are learnt from the training data."""

    symbols: int = 32000
    min_frequency: int = 2
    model_type: str = "unigram"
    character_coverage: float = 0.9995
    separate: bool = False


@dataclass(frozen=True)
class Limits:
    """Of a training pair, in pieces."""

    shortest: int = 1
    longest: int = 250
    ratio: float = 3.0

    def admit(self, source: int, target: int) -> bool:
        inside = self.shortest <= min(source, target) and max(source, target) <= self.longest
        return inside and max(source, target) <= self.ratio * max(min(source, target), 1)


@dataclass(frozen=True)
class Corpus:
    """PREFIX.SOURCE and PREFIX.TARGET of each split; trees, made elsewhere, in PREFIX.conllu."""

    train: str
    valid: str | None = None
    test: Sequence[str] = ()

    def splits(self) -> dict[str, str]:
        """Named as fairseq does: test, test1, test2."""
        tests = {f"test{k or ''}": prefix for k, prefix in enumerate(self.test)}
        named = {"train": self.train, "valid": self.valid, **tests}
        return {name: prefix for name, prefix in named.items() if prefix}


@dataclass(frozen=True)
class Job:
    """All that a data directory is made from."""

    corpus: Corpus
    out: Path
    work: Path
    choices: Choices
    learning: Learning = field(default_factory=Learning)
    limits: Limits = field(default_factory=Limits)
    cluster: Cluster = field(default_factory=Cluster)
    shard_lines: int = 2000
    binarize_workers: int = 1
    shards: int = 1

    def file(self, split: str, kind: str) -> str:
        return str(self.work / f"{split}.{kind}")


class Preparing:
    """A job at work."""

    def __init__(self, job: Job):
        self.job = job
        self.choices = job.choices
        self.preparation = Preparation(job.choices, job.work)
        self.steps = Steps(job.work)
        self.source, self.target = job.choices.source, job.choices.target

    def run(self) -> None:
        for split, prefix in self.job.corpus.splits().items():
            self.normalize(split, prefix)
            self.parse(split, prefix)
        self.learn()
        for split in self.job.corpus.splits():
            self.segment(split)
            self.project(split)
            self.filter(split)
        self.binarize()

    def normalize(self, split: str, prefix: str) -> None:
        raw = {language: f"{prefix}.{language}" for language in (self.source, self.target)}
        if same_number_of_lines(list(raw.values())) == 0:
            raise InputError(f"{raw[self.source]}: the file is empty")
        sides = {
            self.source: (self.choices.tokenize == "moses", self.preparation.source_text),
            self.target: (self.choices.target_by_moses, self.preparation.target_text),
        }
        for language, (by_moses, text_of) in sides.items():
            out = self.job.file(split, f"text.{language}")
            self.steps.do(
                f"normalize.{split}.{language}",
                [self.choices.normalize, by_moses],
                [raw[language]],
                [out],
                partial(rewrite, raw[language], out, text_of),
            )

    def parse(self, split: str, prefix: str) -> None:
        text, out = self.job.file(split, f"text.{self.source}"), self.job.file(split, "conllu.xz")
        settings = self.choices.parser
        trees = given_trees(prefix) if settings.parser == "conllu" else None
        self.steps.do(
            f"parse.{split}",
            settings.describe(),
            [text, *([trees] if trees else [])],
            [out],
            lambda: parse(
                text, out, settings, self.job.cluster, self.job.shard_lines, trees, wait=True
            ),
            lambda: discard(out),
        )
        words = [self.job.file(split, "words"), self.job.file(split, "parents")]
        start = self.job.file(split, "")[:-1]
        several = settings.several_roots
        self.steps.do(
            f"extract.{split}", several, [out], words, lambda: extract([out], start, several, True)
        )

    def to_segment(self, split: str) -> tuple[str, str]:
        """Source and target."""
        source = "words" if self.choices.splits_parsers_words else f"text.{self.source}"
        return self.job.file(split, source), self.job.file(split, f"text.{self.target}")

    def segmenters(self) -> tuple[Path, Path]:
        source = self.job.work / self.choices.segmenter_file
        return source, self.job.work / TARGET_SEGMENTER if self.job.learning.separate else source

    def learn(self) -> None:
        texts, models = self.to_segment("train"), self.segmenters()
        jobs = (
            zip(texts, models, strict=True) if self.job.learning.separate else [(texts, models[0])]
        )
        for given, model in jobs:
            given = [given] if isinstance(given, str) else list(given)
            self.steps.do(
                f"learn.{model.name}",
                [self.choices.segmenter, asdict(self.job.learning)],
                given,
                [model],
                lambda given=given, model=model: self.learn_one(given, str(model)),
            )

    def learn_one(self, texts: Sequence[str], model: str) -> None:
        learning = self.job.learning
        if self.choices.splits_words:
            segment.learn(texts, model, learning.symbols, learning.min_frequency)
        else:
            kind, coverage = learning.model_type, learning.character_coverage
            segment.learn_sentencepiece(texts, model, learning.symbols, kind, coverage)

    def segment(self, split: str) -> None:
        languages = (self.source, self.target)
        for language, text, model in zip(
            languages, self.to_segment(split), self.segmenters(), strict=True
        ):
            out = self.job.file(split, f"pieces.{language}")
            self.steps.do(
                f"segment.{split}.{language}",
                [self.choices.segmenter, self.choices.separator],
                [text, model],
                [out],
                lambda text=text, model=model, out=out: segment.apply(
                    self.segmenter(str(model)), text, out
                ),
            )

    def segmenter(self, model: str) -> Segmenter:
        if self.choices.splits_words:
            return SubwordNmt(Segmentation(model, self.choices.separator))
        return SentencePiece(model)

    def project(self, split: str) -> None:
        words, parents = self.job.file(split, "words"), self.job.file(split, "parents")
        pieces = self.job.file(split, f"pieces.{self.source}")
        text = model = None
        if not self.choices.splits_words:
            text, model = self.to_segment(split)[0], str(self.segmenters()[0])
        inputs = ProjectionInputs(
            words, parents, pieces, text, model, self.choices.separator, missing_tree="flat"
        )
        out = self.job.file(split, f"pieces.{self.source}.trees")
        files = [*inputs.files, *([model] if model else [])]
        self.steps.do(
            f"project.{split}", inputs.separator, files, [out], lambda: project(inputs, out)
        )

    def filter(self, split: str) -> None:
        """Training pairs within the limits; of what is compared with references, all."""
        kinds = [self.source, self.target, f"{self.source}.trees"]
        files = [self.job.file(split, f"pieces.{kind}") for kind in kinds]
        outputs = [self.job.file(split, f"clean.{kind}") for kind in kinds]
        limits = self.job.limits if split == "train" else None
        self.steps.do(
            f"filter.{split}",
            limits and asdict(limits),
            files,
            outputs,
            lambda: filter_lines(files, outputs, limits, split),
        )

    def binarize(self) -> None:
        dictionaries = self.dictionaries() if self.job.shards > 1 else []
        for folder, prefixes in self.folders().items():
            self.binarize_into(folder, prefixes, dictionaries)

    def folders(self) -> dict[Path, dict[str, str]]:
        """Each folder of data, and the files of its splits. Shards share the training pairs out in
        turn; fairseq looks for all other splits in the first."""
        clean = {split: self.job.file(split, "clean") for split in self.job.corpus.splits()}
        if self.job.shards == 1:
            return {self.job.out: clean}
        train, shards = clean.pop("train"), {}
        for k in range(self.job.shards):
            shards[self.job.out / f"shard{k}"] = {"train": f"{train}.shard{k}", **clean}
            clean = {}
        return shards

    def dictionaries(self) -> list[Path]:
        """Of all training pairs, which are then shared out."""
        prefix = self.job.file("train", "clean")
        texts = [f"{prefix}.{language}" for language in (self.source, self.target)]
        folder = self.job.work / "dictionaries"
        found = [folder / f"dict.{language}.txt" for language in (self.source, self.target)]
        options = [
            *self.languages(),
            "--trainpref",
            prefix,
            "--destdir",
            str(folder),
            *self.joined(),
        ]
        self.steps.do(
            "dictionaries",
            self.job.learning.separate,
            texts,
            found,
            lambda: binarize.make_dictionaries(binarize.parser().parse_args(options)),
        )
        kinds = (self.source, self.target, f"{self.source}.trees")
        files = [f"{prefix}.{kind}" for kind in kinds]
        shards = [[f"{prefix}.shard{k}.{kind}" for kind in kinds] for k in range(self.job.shards)]
        self.steps.do(
            "shards",
            self.job.shards,
            files,
            [path for of_shard in shards for path in of_shard],
            lambda: share_out(files, shards),
        )
        return found

    def languages(self) -> list[str]:
        return ["--source-lang", self.source, "--target-lang", self.target]

    def joined(self) -> list[str]:
        return [] if self.job.learning.separate else ["--joined-dictionary"]

    def binarize_into(
        self, folder: Path, prefixes: dict[str, str], dictionaries: Sequence[Path]
    ) -> None:
        options = [*self.languages(), "--destdir", str(folder)]
        options += ["--workers", str(self.job.binarize_workers)]
        if dictionaries:
            options += [f"--srcdict={dictionaries[0]}", f"--tgtdict={dictionaries[1]}"]
        else:
            options += self.joined()
        of_kind: dict[str, list[str]] = {}
        for split, prefix in prefixes.items():
            of_kind.setdefault(split.rstrip("0123456789"), []).append(prefix)
        for kind, named in of_kind.items():
            options += [f"--{kind}pref", ",".join(named)]
        kinds = (self.source, self.target, f"{self.source}.trees")
        texts = [f"{prefix}.{kind}" for prefix in prefixes.values() for kind in kinds]
        model = self.segmenters()[0]
        self.steps.do(
            "binarize" if folder == self.job.out else f"binarize.{folder.name}",
            [self.job.learning.separate, list(prefixes), asdict(self.choices)],
            [*texts, model, *dictionaries],
            self.data_files(folder, list(prefixes)),
            lambda: self.binarize_now(options, model),
        )

    def data_files(self, folder: Path, splits: Sequence[str]) -> list[Path]:
        names = [FILE, self.choices.segmenter_file]
        for language in (self.source, self.target):
            start = f"{self.source}-{self.target}.{language}"
            kinds = ["bin", "idx"]
            if language == self.source:
                kinds += ["tree.bin", "tree.idx"]
            names.append(f"dict.{language}.txt")
            names += [f"{split}.{start}.{kind}" for split in splits for kind in kinds]
        return [folder / name for name in names]

    def binarize_now(self, options: Sequence[str], model: Path) -> None:
        def add_choices(folder: Path) -> None:
            shutil.copyfile(model, folder / self.choices.segmenter_file)
            self.preparation.save(folder)

        args = binarize.parser().parse_args([*options, "--overwrite"])
        binarize.binarize(args, add_choices)


def prepare(job: Job) -> None:
    """Make `job.out`, step by step; files between the steps stay in `job.work`."""
    refuse_separator("--out", job.out, ":")
    refuse_separator("--work", job.work, ",")
    refuse_file(job.out)
    with locked(job.work):
        Preparing(job).run()
    folders = ":".join(map(str, Preparing(job).folders()))
    say(f"{folders}: ready for --task structured_translation")


def given_trees(prefix: str) -> str:
    for suffix in (".conllu", ".conllu.xz", ".conllu.zst", ".conllu.gz"):
        if Path(prefix + suffix).exists():
            return prefix + suffix
    raise InputError(
        f"{prefix}.conllu: no trees of this name; --parser conllu takes them from there"
    )


def rewrite(path: str, out: str, change: Callable[[str], str]) -> None:
    with written_whole(out) as file:
        for line in progress(read_lines(path)):
            file.write(change(line) + "\n")


def filter_lines(
    files: Sequence[str], outputs: Sequence[str], limits: Limits | None, split: str
) -> None:
    lines = kept = 0
    with written_together(outputs) as written:
        for row in rows(files):
            lines += 1
            if limits is None or limits.admit(len(row[0].split()), len(row[1].split())):
                kept += 1
                for file, line in zip(written, row, strict=True):
                    file.write(line + "\n")
        if not kept:
            raise InputError(f"{files[0]}: no pair is within the limits {limits}")
    say(f"{split}: {kept:,} of {lines:,} pairs kept")


def share_out(files: Sequence[str], shards: Sequence[Sequence[str]]) -> None:
    """Line by line, in turn."""
    with written_together([path for of_shard in shards for path in of_shard]) as written:
        for number, row in enumerate(rows(files)):
            start = number % len(shards) * len(files)
            for file, line in zip(written[start : start + len(files)], row, strict=True):
                file.write(line + "\n")


def rows(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    same_number_of_lines(files)
    return zip(*(read_lines(path) for path in files), strict=True)
