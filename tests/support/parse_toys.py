"""This module trains small stanza models and makes the texts that they parse."""

import functools
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fairseq_posattn.jobs.lines import LineWork, do_shard, join
from fairseq_posattn.jobs.running import planned, remove
from fairseq_posattn.jobs.step_records import StepRecord
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.run import parse_step
from fairseq_posattn.trees.conllu import read_blocks
from support.commands import ROOT, run

NOUNS = ["Hund", "Wald", "Haus", "Mann", "Kind", "Garten", "Ball", "Berg", "Turm", "Fluss"]
VERBS = ["sah", "ging", "lief", "stand", "kam", "blieb"]
CONTRACTIONS = {
    "im": ("in", "dem"),
    "zum": ("zu", "dem"),
    "vom": ("von", "dem"),
    "ins": ("in", "das"),
}


class StanzaModels:
    """Each is trained when it is first asked for, in half a minute, once for all test processes."""

    def __init__(self, folder: Path):
        self.folder = folder

    @property
    def toy(self) -> Path:
        """English by name; the language of recipes/toy, where words are separated by spaces."""
        return self._trained("toy", "en", make_toy_treebank)

    @property
    def contracted(self) -> Path:
        """German by name; knows full stops, several sentences in a text, and multiword tokens."""
        return self._trained("contracted", "de", make_contracted_treebank)

    def _trained(self, name: str, lang: str, make: Callable[[Path], None]) -> Path:
        from filelock import FileLock

        out = self.folder / name
        self.folder.mkdir(exist_ok=True)
        with FileLock(f"{out}.training"):
            if not out.exists():
                treebank = self.folder / f"{name}-treebank"
                make(treebank)
                train, dev = treebank / "train.src.conllu", treebank / "dev.src.conllu"
                train_toy("--train", train, "--dev", dev, "--out", out, "--lang", lang)
        return out


def train_toy(*arguments, **kwargs) -> subprocess.CompletedProcess:
    """Run posattn train-parser, whose size is that of a toy."""
    return run(sys.executable, ROOT / "tests/support/train_stanza.py", *arguments, **kwargs)


def make_toy_treebank(folder: Path, train: int = 600, dev: int = 100, test: int = 60) -> None:
    sizes = ["--train", train, "--dev", dev, "--test", test]
    run(sys.executable, ROOT / "recipes/toy/treebank.py", folder, *sizes)


def make_contracted_treebank(folder: Path) -> None:
    folder.mkdir()
    rng = random.Random(1)
    for split, size in (("train", 300), ("dev", 60)):
        blocks = (contracted_block(rng, begins_text=k % 2 == 0) for k in range(size))
        (folder / f"{split}.src.conllu").write_text("".join(blocks), encoding="utf-8")


def contracted_block(rng: random.Random, begins_text: bool) -> str:
    """Return a sentence such as `der Hund ging im Wald zum Haus.` with its tree."""
    subject, verb = rng.choice(NOUNS), rng.choice(VERBS)
    tokens = ["der", subject, verb]
    rows = [
        conllu_row(1, "der", "DET", 2, "det"),
        conllu_row(2, subject, "NOUN", 3, "nsubj"),
        conllu_row(3, verb, "VERB", 0, "root"),
    ]
    word = 4
    for _ in range(rng.choice((0, 1, 1, 2))):
        contraction, noun = rng.choice(list(CONTRACTIONS)), rng.choice(NOUNS)
        tokens += [contraction, noun]
        first, second = CONTRACTIONS[contraction]
        rows += [
            f"{word}-{word + 1}\t{contraction}" + "\t_" * 8,
            conllu_row(word, first, "ADP", word + 2, "case"),
            conllu_row(word + 1, second, "DET", word + 2, "det"),
            conllu_row(word + 2, noun, "NOUN", 3, "obl"),
        ]
        word += 3
    rows.append(conllu_row(word, ".", "PUNCT", 3, "punct"))
    text = [*["# newpar"] * begins_text, f"# text = {' '.join(tokens)}."]
    return "\n".join([*text, *rows]) + "\n\n"


def conllu_row(number: int, form: str, upos: str, head: int, deprel: str) -> str:
    return f"{number}\t{form}\t{form}\t{upos}\t_\t_\t{head}\t{deprel}\t_\t_"


@functools.cache
def toy_blocks() -> list[list[str]]:
    """Return the lines of each tree of a small treebank of the toy language."""
    with tempfile.TemporaryDirectory() as folder:
        make_toy_treebank(Path(folder) / "treebank", 2, 2, 60)
        return [block.lines for block in read_blocks(f"{folder}/treebank/test.src.conllu")]


def toy_texts(folder: Path, lines: int) -> tuple[Path, Path]:
    """A text of the toy language, and its trees, made by repeating a small treebank."""
    folder.mkdir(exist_ok=True)
    blocks = toy_blocks()
    text, trees = folder / "text", folder / "trees.conllu"
    with open(text, "w") as text_file, open(trees, "w") as trees_file:
        for k in range(lines):
            of_line = blocks[k % len(blocks)]
            text_file.write(of_line[1].removeprefix("# text = ") + "\n")
            trees_file.write("\n".join(of_line) + "\n\n")
    return text, trees


def parse_here(
    text: Path, out: Path, settings: ParserSettings, shard_lines: int = 2000, trees=None
) -> list:
    """What parse.py does, without other processes; the notes."""
    work = planned_parse(text, out, settings, shard_lines, trees)
    for k in work.pending():
        do_shard(work, k)
    join(work)
    remove(work.folder)
    return StepRecord.read(f"{out}.json").answer["notes"]


def planned_parse(
    text: Path, out: Path, settings: ParserSettings, shard_lines: int, trees=None
) -> LineWork:
    step = parse_step("parse", str(text), str(out), settings, trees and str(trees), f"{out}.json")
    return planned(step, Path(f"{out}.parts"), shard_lines)


def shards_done_here(work: LineWork, *rest) -> bool:
    """Do one shard after the other in this process, in place of the executors."""
    for k in work.pending():
        do_shard(work, k)
    return True
