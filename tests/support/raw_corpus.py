"""Raw parallel text as it is found, and data directories that preprocess/prepare.py makes of it.

The source is the language of parse_toys.StanzaModels.contracted: stops touch the words and im is
in + dem. In the raw text there is also what normalisation takes away (curly quotes, full-width
commas, stray spaces), and training has pairs that the limits leave out.
"""

import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from filelock import FileLock

from fairseq_posattn.cli import prepare as prepare_command
from fairseq_posattn.fairseq_plugin.tree_data import load_tree_file
from fairseq_posattn.preparation.binarize import LOG
from fairseq_posattn.text.pipeline import FILE
from support import in_process
from support.commands import FULL_TREE
from support.files import write
from support.parse_toys import CONTRACTIONS, NOUNS, VERBS, conllu_row, shards_done_here

SIZES = {"train": 160, "valid": 12, "test": 24}
MAX_WORDS, MAX_LENGTH, MAX_RATIO = 20, 60, 3
SENTENCEPIECE = ("--symbols", 120, "--segmenter", "sentencepiece")
KINDS = {
    "stanza": ("--symbols", 90),
    "moses": ("--symbols", 90, "--tokenize", "moses", "--separate", "--min-frequency", 60),
    "spaces": ("--symbols", 90, "--tokenize", "spaces", "--target-tokenize", "spaces"),
    "unigram-stanza": (*SENTENCEPIECE, "--character-coverage", 0.98),
    "bpe-moses": (*SENTENCEPIECE, "--model-type", "bpe", "--tokenize", "moses", "--separate"),
    "unigram-spaces": (*SENTENCEPIECE, "--tokenize", "spaces", "--no-normalize"),
}
BY_MOSES = ("--symbols", 90, "--tokenize", "moses")
CONTROLLED = {
    "shuffled": (*KINDS["stanza"], "--control", "shuffled"),
    "flipped": (*SENTENCEPIECE, "--control", "own", "--flip", 0.5, "--control-seed", 2),
    "chain": (*BY_MOSES, "--parser", "none", "--control", "chain"),
    "random": (*KINDS["unigram-stanza"], "--control", "random"),
    "no trees": (*BY_MOSES, "--parser", "none"),
    "lower": (*KINDS["stanza"], "--lowercase"),
    "unigram-lower": (*KINDS["unigram-stanza"], "--lowercase"),
}
MODELS = {"tree": FULL_TREE, "sequence": ()}
LANGUAGES = ("--source-lang", "de", "--target-lang", "en")


class Sentence(NamedTuple):
    """This class holds tokens with the words of each, and the parents of the words, from 1."""

    tokens: list[tuple[str, Sequence[str]]]
    parents: list[int]

    @property
    def text(self) -> str:
        text = " ".join(form for form, _ in self.tokens)
        return text.replace(" ,", ",").replace(" .", ".")

    def conllu(self) -> str:
        rows, number = [f"# text = {self.text}"], 0
        for form, words in self.tokens:
            if len(words) > 1:
                rows.append(f"{number + 1}-{number + len(words)}\t{form}" + "\t_" * 8)
            for word in words:
                head = self.parents[number]
                number += 1
                rows.append(conllu_row(number, word, "X", head, "dep" if head else "root"))
        return "\n".join(rows) + "\n\n"


def sentence(rng: random.Random, phrases: int) -> Sentence:
    """`der Waldhund ging im Hausberg, zum Turm.`: what is not a phrase depends on the verb."""
    tokens = [("der", ["der"]), word(noun(rng)), word(rng.choice(VERBS))]
    parents = [2, 3, 0]
    for _ in range(phrases):
        contraction = rng.choice(list(CONTRACTIONS))
        tokens += [(contraction, CONTRACTIONS[contraction]), word(noun(rng))]
        parents += [len(parents) + 3, len(parents) + 3, 3]
        if rng.random() < 0.2:
            tokens.append(word(","))
            parents.append(3)
    return Sentence([*tokens, word(".")], [*parents, 3])


def word(form: str) -> tuple[str, list[str]]:
    return form, [form]


def noun(rng: random.Random) -> str:
    """Compounds, so that words have pieces."""
    return rng.choice(NOUNS) + rng.choice(["", *NOUNS]).lower()


def translation(text: str) -> str:
    """Return the text with each word backwards, in lower case."""
    words = re.findall(r"\w+|\W+", text)
    return "".join(word[::-1].lower() for word in words)


def untidy(text: str, rng: random.Random) -> str:
    """Add to a text what normalisation undoes, or quote or question a word."""
    if not text:
        return " \u3000"
    words = text.split(" ")
    k = rng.choice([k for k, word in enumerate(words) if "," in word] or range(len(words)))
    other = [f"\u201c{words[k]}\u201d", f" \u00a0{words[k]}\u3000", f"{words[k]}\u00a0?"]
    words[k] = rng.choice([words[k], words[k].replace(",", "\uff0c"), *other])
    return " ".join(words)


def write_raw(folder: Path) -> None:
    """Write tidy/SPLIT.de, .en and .conllu with the trees, and raw/SPLIT.de and .en, untidy."""
    rng = random.Random("raw")
    (folder / "raw").mkdir(parents=True)
    (folder / "tidy").mkdir()
    for split, size in SIZES.items():
        sentences = [sentence(rng, rng.choice((0, 1, 1, 2, 3))) for _ in range(size)]
        sentences[size // 2] = sentence(rng, 9)  # of more than MAX_WORDS words
        targets = [translation(s.text) for s in sentences]
        if split == "train":
            leave_some_out(sentences, targets)
        (folder / f"tidy/{split}.conllu").write_text("".join(s.conllu() for s in sentences))
        for language, lines in (("de", [s.text for s in sentences]), ("en", targets)):
            write(folder / f"tidy/{split}.{language}", lines)
            write(folder / f"raw/{split}.{language}", [untidy(line, rng) for line in lines])


def leave_some_out(sentences: list[Sentence], targets: list[str]) -> None:
    """Pairs at both ends and between that are too short, too long, or too unequal."""
    sentences[0] = sentences[-1] = Sentence([], [])
    targets[0] = targets[-1] = ""
    sentences[30] = sentences[60] = Sentence([word("Hund"), word(".")], [0, 1])
    targets[60] = ""
    targets[90] = "dnuh."
    sentences[120] = sentence(random.Random("long"), 14)
    targets[120] = targets[SIZES["train"] // 2]
    targets[SIZES["train"] // 2] = f"{targets[120]} {targets[120]}"


def prepare(*options) -> None:
    """posattn prepare in this process, without worker processes, which take seconds to start."""
    with (
        mock.patch.object(sys, "argv", ["posattn prepare", *map(str, options)]),
        mock.patch("fairseq_posattn.jobs.running.run", shards_done_here),
    ):
        prepare_command.main()


class Corpus:
    """Raw text, and on request what prepare.py makes of it; shared by all test processes."""

    def __init__(self, folder: Path, models: Path):
        self.folder, self.models = folder, models
        with FileLock(f"{folder}.lock"):
            if not (folder / "raw").exists():
                write_raw(folder)

    def options(self, *more, raw: str = "raw", splits: Sequence[str] = tuple(SIZES)) -> list:
        files = [option for s in splits for option in (f"--{s}", self.folder / raw / s)]
        return [
            *("--source", "de", "--target", "en", *files, "--model-dir", self.models),
            *("--max-words", MAX_WORDS, "--max-length", MAX_LENGTH, "--max-ratio", MAX_RATIO),
            *more,
        ]

    def data(self, kind: str) -> Path:
        """A data directory as the tables say; the files between the steps are in KIND.work."""
        out = self.folder / kind
        with FileLock(f"{out}.made"):  # OUT.lock is the program's own
            if not out.exists():
                prepare(*self.options(*(KINDS | CONTROLLED)[kind], "--out", out))
        return out

    def model(self, kind: str, name: str = "tree") -> Path:
        """Return a checkpoint trained on such data."""
        data, run = self.data(kind), self.folder / f"{kind}.{name}"
        with FileLock(f"{run}.lock"):
            if not (run / "checkpoint_last.pt").exists():
                quick = ("--max-update", "40", "--lr", "5e-3", "--no-epoch-checkpoints")
                in_process.train(data, run, *LANGUAGES, *MODELS[name], *quick)
        return run / "checkpoint_last.pt"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a data directory, without what depends on its place."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOG}
    if FILE in found:
        found[FILE] = re.sub(rb' "model_dir_from_here": .*\n', b"", found[FILE])
    return found


def stored_trees(data: Path, split: str) -> list[tuple[list[int], list[int]]]:
    """Return parents and numbers of pieces of the words of each sentence of a data directory."""
    trees = load_tree_file(str(data / f"{split}.de-en.de"))
    words, lengths = trees.read(np.arange(len(trees)))
    sentences = np.split(words, np.cumsum(lengths)[:-1])
    return [(s["parent"].tolist(), s["pieces"].tolist()) for s in sentences]
