"""Options that specify the text files of a corpus, or the treebanks from which it is extracted."""

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import option

ALIGN = "align"  # the suffix of alignment files, and the CoNLL-U comment with an alignment


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus with the text files PREFIX.SOURCE and PREFIX.TARGET for each split.

    PREFIX.conllu contains the trees of the source for --parser conllu.
    """

    train: str = option("train on the texts PREFIX.SOURCE and PREFIX.TARGET", "", metavar="PREFIX")
    valid: str | None = option("validate on the texts with this prefix", None, metavar="PREFIX")
    test: list[str] = option(
        "test on the texts with these prefixes, which become the splits test, test1 and so on",
        [],
        metavar="PREFIX",
    )

    def splits(self) -> dict[str, str]:
        """Return the prefix of each split; the keys are fairseq's names, such as test and test1."""
        tests = {f"test{k or ''}": prefix for k, prefix in enumerate(self.test)}
        named = {"train": self.train, "valid": self.valid, **tests}
        return {name: prefix for name, prefix in named.items() if prefix}


@dataclass(frozen=True)
class Treebanks:
    """Treebanks that contain the source trees and the translations."""

    treebank: list[str] = option(
        "read words and trees of the source from these CoNLL-U files (also .gz, .xz or .zst): one "
        "for training, one for validation, and any number for testing; replaces --train, --valid "
        "and --test",
        [],
        group="treebanks",
        metavar="FILE",
    )
    target_treebank: list[str] = option(
        "read the translations from these treebanks, one for each file of --treebank",
        [],
        metavar="FILE",
    )
    target_comment: str | None = option(
        "read the translation of a sentence from its comment with this name, such as text_en; "
        "sentences whose comment is empty or `...` are left out",
        None,
        metavar="NAME",
    )
    align_by: str = option(
        "pair sentences of --treebank and --target-treebank that have the same value of this "
        "comment (default: %(default)s)",
        "sent_id",
        metavar="NAME",
    )

    def __post_init__(self) -> None:
        source, target = len(self.treebank), len(self.target_treebank)
        if not source:
            if target or self.target_comment is not None:
                raise InputError(
                    "--target-treebank and --target-comment need source trees; pass the source "
                    "treebanks with --treebank"
                )
        elif bool(target) == (self.target_comment is not None):
            raise InputError(
                "--treebank needs exactly one source of translations; specify a comment with "
                "--target-comment, or treebanks with --target-treebank"
            )
        elif target not in (0, source):
            raise InputError(
                f"--treebank has {source} files, but --target-treebank has {target}; give one "
                "target treebank for each source treebank, in the same order"
            )

    def splits(self) -> dict[str, list[str]]:
        """Return the treebanks of each split, beginning with the source treebank."""
        sides = [side for side in (self.treebank, self.target_treebank) if side]
        names = ["train", "valid", *(f"test{k or ''}" for k in range(len(self.treebank)))]
        return dict(zip(names, map(list, zip(*sides, strict=True)), strict=False))

    def corpus(self, work: Path) -> Corpus:
        """Return the corpus that is extracted from these treebanks to the folder `work`."""
        prefixes = [str(work / f"{split}.treebank") for split in self.splits()]
        return Corpus(prefixes[0], prefixes[1] if prefixes[1:] else None, prefixes[2:])
