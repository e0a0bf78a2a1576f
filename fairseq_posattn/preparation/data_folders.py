"""Write the data folder, or with --shards several folders: the last step of a preparation."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fairseq.data import Dictionary

from fairseq_posattn.fairseq_plugin.label_dictionaries import paths
from fairseq_posattn.fairseq_plugin.patches.checked_data import CHECKSUMS, write_checksums
from fairseq_posattn.files.files import count_lines, read_lines
from fairseq_posattn.files.records import as_document
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.lines import Files, LineStep
from fairseq_posattn.preparation import binarize
from fairseq_posattn.preparation.binarize_lines import (
    binarize_lines,
    count,
    join_data,
    write_dictionaries,
)
from fairseq_posattn.preparation.corpus import ALIGN
from fairseq_posattn.preparation.job import Job, StepsByLines
from fairseq_posattn.preparation.pairs import share_out
from fairseq_posattn.text.pipeline import FILE, TextPipeline

MANY_UNKNOWN = 0.01  # warn if the share of unknown pieces is larger


class DataFolders:
    """Writes the data folders of a job, given its pieces and trees."""

    def __init__(self, job: Job, pipeline: TextPipeline, steps: StepsByLines):
        self.job = job
        self.config = job.config
        self.pipeline = pipeline
        self.steps = steps
        self.source, self.target = job.config.source, job.config.target

    def binarize(self) -> None:
        """Write all data folders of the job."""
        several = self.job.shards > 1
        dictionaries = self.dictionaries() if several or self.is_long(self.train) else []
        if several:
            self.share_out()
        for folder, prefixes in data_folders(self.job).items():
            self.binarize_into(folder, prefixes, dictionaries)
        self.warn_of_unknown(next(iter(data_folders(self.job))))

    def warn_of_unknown(self, folder: Path) -> None:
        """Warn about validation and test sets in which many pieces become <unk>."""
        remedy = "a higher --character-coverage or more training text may help"
        if self.config.splits_words:
            remedy = "--segmenter sentencepiece or more training text may help"
        for split in list(self.job.corpus.splits())[1:]:
            for language in (self.source, self.target):
                known = Dictionary.load(str(folder / f"dict.{language}.txt")).indices
                path = f"{self.job.clean(split)}.{language}"
                pieces = Counter(piece for line in read_lines(path) for piece in line.split())
                unknown = Counter({p: count for p, count in pieces.items() if p not in known})
                if (share := unknown.total() / max(pieces.total(), 1)) > MANY_UNKNOWN:
                    often = ", ".join(f"{p} ({n:,})" for p, n in unknown.most_common(3))
                    say(
                        f"warning: {path}: {unknown.total():,} of {pieces.total():,} pieces "
                        f"({100 * share:.1f} %) are not in the dictionary and become <unk>, most "
                        f"often {often}; {remedy}"
                    )

    @property
    def train(self) -> str:
        return self.job.clean("train")

    def is_long(self, prefix: str) -> bool:
        """Return whether the texts with this prefix are long enough to be binarised in shards."""
        return count_lines(f"{prefix}.{self.source}") > self.job.step_lines

    def files(self, prefix: str, split: str = "train") -> list[str]:
        return [f"{prefix}.{kind}" for kind in self.job.kinds(split)]

    def dictionaries(self) -> list[Path]:
        """Build the dictionaries from all training pairs, and return their paths."""
        folder = self.job.work / f"dictionaries{self.job.variant}"
        found = [folder / f"dict.{language}.txt" for language in (self.source, self.target)]
        step = LineStep(self.job.step("dictionaries"), self.files(self.train), [], count)
        options = [*self.languages(), *self.joined_dictionary(), *self.label_subtypes()]
        args = binarize.parser().parse_args([*options, "--destdir", str(folder)])
        self.steps.do(
            step.name,
            [self.job.learning.separate, *self.label_subtypes()],
            step.inputs,
            [*found, *(paths(folder, self.source) if self.config.parsed else [])],
            lambda: write_dictionaries(args, self.steps.run(step)),
            lambda: self.steps.discard(step),
        )
        return found

    def share_out(self) -> None:
        shards = [self.files(f"{self.train}.shard{k}") for k in range(self.job.shards)]
        self.steps.do(
            self.job.step("shards"),
            self.job.shards,
            self.files(self.train),
            [path for of_shard in shards for path in of_shard],
            lambda: share_out(self.files(self.train), shards),
        )

    def languages(self) -> list[str]:
        return ["--source-lang", self.source, "--target-lang", self.target]

    def joined_dictionary(self) -> list[str]:
        return [] if self.job.learning.separate else ["--joined-dictionary"]

    def label_subtypes(self) -> list[str]:
        return ["--label-subtypes=keep"] if self.job.label_subtypes == "keep" else []

    def binarize_into(
        self, folder: Path, prefixes: dict[str, str], dictionaries: Sequence[Path]
    ) -> None:
        """Write a data folder with these splits; new dictionaries are built if none are given."""
        options = [*self.languages(), *self.label_subtypes()]
        processes = min(self.job.binarize_workers, os.cpu_count() or 1)  # more are not faster
        options += ["--workers", str(processes)]
        if dictionaries:
            options += [f"--srcdict={dictionaries[0]}", f"--tgtdict={dictionaries[1]}"]
        else:
            options += self.joined_dictionary()
        if not self.config.has_trees:
            options.append("--no-trees")
        if self.job.is_aligned("train"):
            options += ["--align-suffix", ALIGN]
        texts = [path for split in prefixes for path in self.files(prefixes[split], split)]
        train = [str(folder / file) for file in self.files_of_split("train")]
        name = self.job.step("binarize" if folder == self.job.out else f"binarize.{folder.name}")
        if dictionaries and self.config.parsed:
            dictionaries = [*dictionaries, *paths(dictionaries[0].parent, self.source)]
        act = partial(binarize_lines, options)
        step = LineStep(name, self.files(prefixes["train"]), train, act)
        self.steps.do(
            name,
            [
                *(self.job.learning.separate, list(prefixes), as_document(self.config)),
                *self.label_subtypes(),
            ],
            [*texts, self.job.segmenters()[0], *dictionaries],
            self.data_files(folder, list(prefixes)),
            lambda: self.write(step, folder, options, prefixes),
            lambda: self.steps.discard(step),
        )
        if not (folder / CHECKSUMS).exists():  # data written by an earlier version
            write_checksums(folder)

    def data_files(self, folder: Path, splits: Sequence[str]) -> list[Path]:
        """Return the files of a complete data folder."""
        names = [FILE, self.config.segmenter_file]
        if self.config.parsed:
            names += [path.name for path in paths(folder, self.source)]
        names += [f"dict.{language}.txt" for language in (self.source, self.target)]
        names += [name for split in splits for name in self.files_of_split(split)]
        return [folder / name for name in names]

    def files_of_split(self, split: str) -> list[str]:
        names = []
        for language in (self.source, self.target):
            kinds = ["bin", "idx"]
            if language == self.source and self.config.has_trees:
                kinds += ["tree.bin", "tree.idx"]
            start = f"{split}.{self.source}-{self.target}.{language}"
            names += [f"{start}.{kind}" for kind in kinds]
        if self.job.is_aligned(split):
            start = f"{split}.{ALIGN}.{self.source}-{self.target}"
            names += [f"{start}.{kind}" for kind in ("bin", "idx")]
        return names

    def write(
        self, step: LineStep, folder: Path, options: Sequence[str], prefixes: dict[str, str]
    ) -> None:
        """Write a data folder, including its segmenter and prepare.json.

        Long training texts are binarised in shards, which are then joined.

        step: binarises the training texts.
        """

        def write_splits(splits: dict[str, str], shards: Sequence[Files] = ()) -> None:
            def add(new: Path) -> None:
                if shards:
                    join_data(shards, [str(new / file) for file in self.files_of_split("train")])
                shutil.copyfile(self.job.segmenters()[0], new / self.config.segmenter_file)
                self.pipeline.save(new)

            args = [*options, *split_options(splits), "--destdir", str(folder), "--overwrite"]
            binarize.binarize(binarize.parser().parse_args(args), add)

        if self.is_long(prefixes["train"]):
            rest = {split: prefix for split, prefix in prefixes.items() if split != "train"}
            self.steps.run(step, lambda shards, outputs: write_splits(rest, shards))
        else:
            write_splits(prefixes)


def split_options(prefixes: dict[str, str]) -> list[str]:
    """Return the options of posattn binarize that specify the texts of the splits."""
    of_kind: dict[str, list[str]] = {}
    for split, prefix in prefixes.items():
        of_kind.setdefault(split.rstrip("0123456789"), []).append(prefix)
    return [word for kind, of in of_kind.items() for word in (f"--{kind}pref", ",".join(of))]


def data_folders(job: Job) -> dict[Path, dict[str, str]]:
    """Return the data folders and the prefixes of their splits.

    All shards contain training pairs. Only the first shard contains the other splits, as fairseq
    expects.
    """
    clean = {split: job.clean(split) for split in job.corpus.splits()}
    if job.shards == 1:
        return {job.out: clean}
    train, shards = clean.pop("train"), {}
    for k in range(job.shards):
        shards[job.out / f"shard{k}"] = {"train": f"{train}.shard{k}", **clean}
        clean = {}
    return shards
