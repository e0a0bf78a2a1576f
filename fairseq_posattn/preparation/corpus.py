"""Name the texts of a corpus, or the treebanks that it is made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import option

ALIGN = "align"  # how files of alignments end, and the comment that has one


@dataclass(frozen=True)
class Corpus:
    """A corpus names a PREFIX for each split, whose texts are PREFIX.SOURCE and PREFIX.TARGET.

    Trees that were made elsewhere are in PREFIX.conllu.
    """

    train: str = option("train on the texts PREFIX.SOURCE and PREFIX.TARGET", "", metavar="PREFIX")
    valid: str | None = option("validate on the texts of this prefix", None, "", "PREFIX")
    test: list[str] = option(
        "test on the texts of these prefixes, which become the splits test, test1 and so on",
        *([], "", "PREFIX"),
    )

    def splits(self) -> dict[str, str]:
        """Return the prefix of each split, under fairseq's names: test, test1, test2."""
        tests = {f"test{k or ''}": prefix for k, prefix in enumerate(self.test)}
        named = {"train": self.train, "valid": self.valid, **tests}
        return {name: prefix for name, prefix in named.items() if prefix}


@dataclass(frozen=True)
class Treebanks:
    """These treebanks have the trees of the source and, in one of two ways, its translations."""

    treebank: list[str] = option(
        "take words and trees of the source from these treebanks in CoNLL-U (also .gz, .xz or "
        ".zst), for training, validation, and any number of tests, instead of --train and its kin",
        *([], "treebanks", "FILE"),
    )
    target_treebank: list[str] = option(
        "take the translations from the sentences of these treebanks, one file for each",
        *([], "treebanks", "FILE"),
    )
    target_comment: str | None = option(
        "take the translation of a sentence from its comment of this name, such as text_en; an "
        "empty one and `...` mean that there is none",
        *(None, "treebanks", "NAME"),
    )
    align_by: str = option(
        "sentences with the same comment of this name are translations (default: %(default)s)",
        *("sent_id", "treebanks", "NAME"),
    )

    def __post_init__(self) -> None:
        source, target = len(self.treebank), len(self.target_treebank)
        if not source:
            if target or self.target_comment is not None:
                raise InputError(
                    "there are translations without trees; name the treebanks of the source with "
                    "--treebank"
                )
        elif bool(target) == (self.target_comment is not None):
            raise InputError(
                "--treebank needs translations; name either a comment with --target-comment, or "
                "treebanks with --target-treebank"
            )
        elif target not in (0, source):
            raise InputError(
                f"--treebank names {source} files, but --target-treebank {target}; name one for "
                "each, in the same order"
            )

    def splits(self) -> dict[str, list[str]]:
        """Return the treebanks of each split, that of the source first."""
        sides = [side for side in (self.treebank, self.target_treebank) if side]
        names = ["train", "valid", *(f"test{k or ''}" for k in range(len(self.treebank)))]
        return dict(zip(names, map(list, zip(*sides, strict=True)), strict=False))

    def corpus(self, work: Path) -> Corpus:
        """Return the parallel text that these treebanks become."""
        prefixes = [str(work / f"{split}.treebank") for split in self.splits()]
        return Corpus(prefixes[0], prefixes[1] if prefixes[1:] else None, prefixes[2:])
