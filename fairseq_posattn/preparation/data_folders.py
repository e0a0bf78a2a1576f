"""Make the folders of binary data, one or several shards: the last step of the preparation."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.glue.data.label_dictionaries import paths
from fairseq_posattn.io.records import as_document
from fairseq_posattn.io.steps import Steps
from fairseq_posattn.preparation import binarize
from fairseq_posattn.preparation.job import Job
from fairseq_posattn.preparation.pairs import share_out
from fairseq_posattn.text.pipeline import FILE, TextPipeline


class DataFolders:
    """This class makes the data folders of a job from its pieces and trees."""

    def __init__(self, job: Job, pipeline: TextPipeline, steps: Steps):
        self.job = job
        self.config = job.config
        self.pipeline = pipeline
        self.steps = steps
        self.source, self.target = job.config.source, job.config.target

    def binarize(self) -> None:
        """Make all data folders of the job."""
        dictionaries = self.dictionaries() if self.job.shards > 1 else []
        for folder, prefixes in data_folders(self.job).items():
            self.binarize_into(folder, prefixes, dictionaries)

    def dictionaries(self) -> list[Path]:
        """Make the dictionaries of all training pairs, and deal the pairs out to the shards."""
        prefix = self.job.clean("train")
        texts = [f"{prefix}.{language}" for language in (self.source, self.target)]
        folder = self.job.work / f"dictionaries{self.job.variant}"
        found = [folder / f"dict.{language}.txt" for language in (self.source, self.target)]
        options = [
            *self.languages(),
            "--trainpref",
            prefix,
            "--destdir",
            str(folder),
            *self.joined_dictionary(),
            *self.label_subtypes(),
        ]
        trees = [f"{prefix}.{self.source}.trees"] if self.config.has_trees else []
        if not trees:
            options.append("--no-trees")
        self.steps.do(
            self.job.step("dictionaries"),
            [self.job.learning.separate, *self.label_subtypes()],
            [*texts, *trees],
            [*found, *(paths(folder, self.source) if self.config.parsed else [])],
            lambda: binarize.make_dictionaries(binarize.parser().parse_args(options)),
        )
        kinds = self.job.kinds()
        files = [f"{prefix}.{kind}" for kind in kinds]
        shards = [[f"{prefix}.shard{k}.{kind}" for kind in kinds] for k in range(self.job.shards)]
        self.steps.do(
            self.job.step("shards"),
            self.job.shards,
            files,
            [path for of_shard in shards for path in of_shard],
            lambda: share_out(files, shards),
        )
        return found

    def languages(self) -> list[str]:
        """Return the options that name the languages."""
        return ["--source-lang", self.source, "--target-lang", self.target]

    def joined_dictionary(self) -> list[str]:
        """Return the option for one dictionary of both languages, unless they are separate."""
        return [] if self.job.learning.separate else ["--joined-dictionary"]

    def label_subtypes(self) -> list[str]:
        """Return the option that keeps the subtypes of relations, if it was chosen."""
        return ["--label-subtypes=keep"] if self.job.label_subtypes == "keep" else []

    def binarize_into(
        self, folder: Path, prefixes: dict[str, str], dictionaries: Sequence[Path]
    ) -> None:
        """Make one data folder of these splits, with given dictionaries if there are any."""
        options = [*self.languages(), "--destdir", str(folder), *self.label_subtypes()]
        options += ["--workers", str(self.job.binarize_workers)]
        if dictionaries:
            options += [f"--srcdict={dictionaries[0]}", f"--tgtdict={dictionaries[1]}"]
        else:
            options += self.joined_dictionary()
        of_kind: dict[str, list[str]] = {}
        for split, prefix in prefixes.items():
            of_kind.setdefault(split.rstrip("0123456789"), []).append(prefix)
        for kind, named in of_kind.items():
            options += [f"--{kind}pref", ",".join(named)]
        if not self.config.has_trees:
            options.append("--no-trees")
        texts = [f"{prefix}.{kind}" for prefix in prefixes.values() for kind in self.job.kinds()]
        model = self.job.segmenters()[0]
        if dictionaries and self.config.parsed:
            dictionaries = [*dictionaries, *paths(dictionaries[0].parent, self.source)]
        self.steps.do(
            self.job.step("binarize" if folder == self.job.out else f"binarize.{folder.name}"),
            [
                *(self.job.learning.separate, list(prefixes), as_document(self.config)),
                *self.label_subtypes(),
            ],
            [*texts, model, *dictionaries],
            self.data_files(folder, list(prefixes)),
            lambda: self.binarize_now(options, model),
        )

    def data_files(self, folder: Path, splits: Sequence[str]) -> list[Path]:
        """Return the files that a complete data folder has."""
        names = [FILE, self.config.segmenter_file]
        if self.config.parsed:
            names += [path.name for path in paths(folder, self.source)]
        for language in (self.source, self.target):
            start = f"{self.source}-{self.target}.{language}"
            kinds = ["bin", "idx"]
            if language == self.source and self.config.has_trees:
                kinds += ["tree.bin", "tree.idx"]
            names.append(f"dict.{language}.txt")
            names += [f"{split}.{start}.{kind}" for split in splits for kind in kinds]
        return [folder / name for name in names]

    def binarize_now(self, options: Sequence[str], model: Path) -> None:
        """Make a data folder with its segmenter and its prepare.json."""

        def add_choices(folder: Path) -> None:
            shutil.copyfile(model, folder / self.config.segmenter_file)
            self.pipeline.save(folder)

        args = binarize.parser().parse_args([*options, "--overwrite"])
        binarize.binarize(args, add_choices)


def data_folders(job: Job) -> dict[Path, dict[str, str]]:
    """Return each data folder with the files of its splits.

    Shards get the training pairs in turn. fairseq looks for all other splits in the first shard.
    """
    clean = {split: job.clean(split) for split in job.corpus.splits()}
    if job.shards == 1:
        return {job.out: clean}
    train, shards = clean.pop("train"), {}
    for k in range(job.shards):
        shards[job.out / f"shard{k}"] = {"train": f"{train}.shard{k}", **clean}
        clean = {}
    return shards
