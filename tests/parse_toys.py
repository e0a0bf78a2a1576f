"""Small stanza models, trained here; parse.py in the background or within the test's process."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commands import ROOT, run
from fairseq_posattn.parsing.join import join
from fairseq_posattn.parsing.plan import plan
from fairseq_posattn.parsing.sharded_parse import remove
from fairseq_posattn.parsing.worker import do_shard
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.trees.conllu import read_blocks

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
        return self._trained("contracted", "de", make_contracted_treebank, "--mwt")

    def _trained(self, name: str, lang: str, make: Callable[[Path], None], *options: str) -> Path:
        from filelock import FileLock

        out = self.folder / name
        self.folder.mkdir(exist_ok=True)
        with FileLock(f"{out}.training"):
            if not out.exists():
                treebank = self.folder / f"{name}-treebank"
                make(treebank)
                files = [treebank / "train.src.conllu", treebank / "dev.src.conllu"]
                trainer = ROOT / "tests" / "train_stanza.py"
                run(sys.executable, trainer, *files, "--out", out, "--lang", lang, *options)
        return out


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
    """A sentence such as `der Hund ging im Wald zum Haus.` with its tree."""
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


def toy_texts(folder: Path, lines: int) -> tuple[Path, Path]:
    """A text of the toy language, and its trees, made by repeating a small treebank."""
    make_toy_treebank(folder / "treebank", 2, 2, 60)
    blocks = [block.lines for block in read_blocks(str(folder / "treebank/test.src.conllu"))]
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
    work = plan(str(text), str(out), settings, shard_lines, trees and str(trees))
    for k in work.pending():
        do_shard(work, k)
    notes = join(work).notes
    remove(work.folder)
    return notes


class Parse:
    """parse.py in the background, killed at the end of the `with` block at the latest."""

    def __init__(self, *arguments):
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        command = [sys.executable, ROOT / "preprocess" / "parse.py", *arguments]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self.seen: set[int] = set()  # processes that it started, as far as anyone looked

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def printed(self) -> str:
        return os.pread(self.log.fileno(), 1 << 24, 0).decode()

    def wait(self, seconds: float = 120) -> int:
        return self.process.wait(seconds)

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Until it holds; an error if the program has ended before."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.printed()[-3000:]
            assert time.monotonic() < end, self.printed()[-3000:]
            time.sleep(0.005)

    def workers(self) -> list[int]:
        started = list(children(self.process.pid))
        self.seen.update(started)
        return [pid for pid in started if b"spawn_main" in command_line(pid)]

    def left_behind(self, seconds: float = 5) -> list[int]:
        """Which of the processes seen are still there, after a moment."""
        end = time.monotonic() + seconds
        while left := [pid for pid in self.seen if is_alive(pid)]:
            if time.monotonic() > end:
                return left
            time.sleep(0.01)
        return []

    def kill_worker(self) -> None:
        self.wait_until(self.workers)
        os.kill(self.workers()[0], signal.SIGKILL)


def children(parent: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with unless_gone():
            state, its_parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if int(its_parent) == parent and state != "Z":
                yield int(folder.name)


def is_alive(pid: int) -> bool:
    with unless_gone():
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def command_line(pid: int) -> bytes:
    with unless_gone():
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def ignores(pid: int, number: int) -> bool:
    """Whether a signal does nothing to a process."""
    with unless_gone():
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        masks = [line.split()[1] for line in status if line.startswith(("SigBlk", "SigIgn"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    return True


@contextmanager
def unless_gone() -> Iterator[None]:
    with suppress(FileNotFoundError, ProcessLookupError):
        yield
