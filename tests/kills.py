"""Kill programs at random moments, again and again, and compare what they end with.

    python -m tests.kills --kills 60 --seed 1           a table: program, kills, lost
    python -m tests.kills --only table --kills 15

Each kill is a SIGKILL, of the command alone or of all its processes, and the same command is then
started again, at once. All that it had started must end with it. What it makes in the end must be
what an undisturbed run makes, and nothing may lie beside it. At last, each program is started twice
at the same time: one of the two makes the same, and the other does, too, or is refused in one line.
Programs start in forks of a process that has imported fairseq.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parent))  # the package `support`

from fairseq_posattn.files.atomic import leftovers
from support.background import Background
from support.commands import PLUGIN, ROOT, make_toy_data
from support.experiments import TINY, Experiment, copy_of, prepared
from support.in_process import train
from support.killed import Tally, is_refusal, killed_at_random_moments
from support.parse_toys import StanzaModels, make_toy_treebank
from support.probes import make_world
from support.raw_corpus import KINDS, Corpus, contents

RECIPE = "multi30k_en_de"
AVERAGED = ("--encoder-embed-dim", "256", "--decoder-embed-dim", "256", "--max-update", "4")


class Program(NamedTuple):
    """A program: its command with an output of its own, and what must be the same each time.

    alone: it is always killed alone.
    """

    command: Callable[[Path], list]
    result: Callable[[Path], Any]
    alone: bool = False


def module(name: str, *arguments) -> list:
    """The command of an installed program."""
    return [sys.executable, "-m", f"fairseq_posattn.cli.{name}", *arguments]


def raw_corpus(folder: Path) -> Corpus:
    """Raw parallel text, with models of a parser."""
    return Corpus(folder / "raw-corpus", StanzaModels(folder / "stanza").contracted)


def preparing(folder: Path) -> Program:
    """Raw text is parsed, segmented and binarised by two workers, in shards."""
    corpus = raw_corpus(folder)
    options = corpus.options(*KINDS["stanza"], "--shard-lines", 5, "--workers", 2)

    def result(out: Path) -> Any:
        assert leftovers(out) == [] and not list(Path(f"{out}.work/shards").iterdir())
        return contents(out)

    return Program(lambda out: module("prepare", *options, "--out", out), result)


SMALL = ("--cpu", "--size", "demo", "--updates", 4)


def table(folder: Path) -> Program:
    """Two models of a recipe are trained and evaluated, and their table is written."""
    options = (*SMALL, "--models", "sequence", "structural", "--last", 2, "--examples", 0)
    command = partial(recipe_command, folder, "table", *options)
    return Program(command, lambda out: table_of(out / "work"))


def parent(folder: Path) -> Program:
    """Of all processes of a recipe, the first one alone is killed.

    torchrun starts the two processes of the training in sessions of their own.
    """
    command = partial(recipe_command, folder, "train", "structural", *SMALL, "--processes", 2)
    return Program(command, lambda out: trained_in(out / "work"), alone=True)


def recipe_command(folder: Path, step: str, *options_and_out: Any) -> list:
    """The command of a step of a recipe, whose data are made once."""
    *options, out = options_and_out
    small = Experiment(RECIPE, folder / "killed-recipe/work")
    if not small.work.exists():
        prepared(raw_corpus(folder), RECIPE, small.work.parent)
    if not out.exists():
        out.mkdir()
        copy_of(small, out)
    return Experiment(RECIPE, out / "work").command(step, *options, "--", *TINY, "--dropout", 0)


def trained_in(work: Path) -> dict[str, bytes]:
    """The parameters of the only model."""
    [run] = (work / "runs").iterdir()
    assert (run / "finished").exists()
    model = torch.load(run / "checkpoint_last.pt", weights_only=False)["model"]
    return {name: parameter.numpy().tobytes() for name, parameter in model.items()}


def table_of(work: Path) -> Any:
    """All figures but speeds, and the translations."""
    rows = list(csv.DictReader((work / "table.csv").read_text().splitlines()))
    for row in rows:
        del row["training words/s"]
    assert not [path for path in work.rglob("*.partial*") if path.is_file()]
    texts = {re.sub(r"\.\w{8}/", "/", str(p.relative_to(work))): p for p in work.rglob("*.hyp")}
    scores = {path.name: json.loads(path.read_text()) for path in work.glob("results/*.json")}
    return (
        rows,
        {name: path.read_bytes() for name, path in texts.items()},
        {name: found["scores"] for name, found in scores.items()},
    )


def toy_data(folder: Path) -> Path:
    """A binarised toy corpus with trees."""
    if not (folder / "toy/data").exists():
        make_toy_data(folder / "toy")
    return folder / "toy/data"


def probing(folder: Path) -> Program:
    """A model and an untrained one are probed in two tasks."""
    world = make_world(toy_data(folder), folder / "killed-probe")
    options = [world.data, "--user-dir", PLUGIN, "--path", f"tree={world.models['tree']}", "--cpu"]
    options += ["--tasks", world.tasks, "--task", "SentLen", "TreeDepth", "--trees", world.trees]

    def command(out: Path) -> list:
        files = ["--json", out / "probes.json", "--work", out / "work", "--table", out / "table"]
        return module("probe", *options, *files)

    def result(out: Path) -> Any:
        names = sorted(path.suffix for path in (out / "work/vectors").iterdir())
        assert ".growing" not in names and names.count(".npy") == 4, names
        return [(out / name).read_bytes() for name in ("probes.json", "table.csv", "table.md")]

    return Program(command, result)


def averaging(folder: Path) -> Program:
    """Checkpoints of some size are averaged."""
    options = ["-s", "src", "-t", "tgt", *AVERAGED, "--save-interval-updates", "1"]
    run = folder / "killed-average"
    train(toy_data(folder), run, *options)

    def command(out: Path) -> list:
        out.mkdir(exist_ok=True)
        return module("average", run, "--last", 3, "--out", out / "averaged.pt")

    def result(out: Path) -> bytes:
        assert leftovers(out / "averaged.pt") == []
        return (out / "averaged.pt").read_bytes()

    return Program(command, result)


def parser_training(folder: Path) -> Program:
    """A tagger and a parser are trained from a treebank.

    A parser that goes on from stanza's checkpoint draws other random numbers, so its weights differ
    from those of an undisturbed run; everything else is the same.
    """
    treebank = folder / "killed-treebank"
    make_toy_treebank(treebank, train=300, dev=40)
    files = [f"--{split}={treebank / split}.src.conllu" for split in ("train", "dev")]
    program = [sys.executable, ROOT / "tests/support/train_stanza.py", *files, "--lang", "qde"]

    def result(out: Path) -> Any:
        assert leftovers(out) == []
        scores = json.loads((out / "trained.json").read_text())["answer"]["scores"]
        assert min(scores.values()) > 50, scores
        weights = {
            str(path.relative_to(out)): {
                name: "" if "depparse" in path.parts else value.numpy().tobytes()
                for name, value in torch.load(path)["model"].items()
            }
            for path in sorted(out.rglob("*.pt"))
        }
        return scores["upos"], (out / "resources.json").read_bytes(), weights

    return Program(lambda out: [*program, "--no-tokenizer", "--out", out], result)


# what is made for several programs lies in one folder, and is made once
PROGRAMS = {"prepare": preparing, "table": table, "parent": parent}
PROGRAMS |= {"probe": probing, "average": averaging, "train-parser": parser_training}


def started_twice(program: Program, out: Path, dice: random.Random, seconds: float) -> Any:
    """The result of a command that is started a second time while the first run is at work."""
    with Background(program.command(out), alone=True) as first:
        time.sleep(dice.uniform(0, seconds))
        with Background(program.command(out), alone=True) as second:
            codes = [first.wait(), second.wait()]
            printed = [first.printed(), second.printed()]
    assert 0 in codes, printed
    for code, text in zip(codes, printed, strict=True):
        assert code == 0 or is_refusal(text), text[-3000:]
    return program.result(out)


def lost_by(program: Program, folder: Path, tally: Tally) -> list[str]:
    """What an undisturbed run has, and others have not, in words; the tally tells what was done."""
    outputs = killed_at_random_moments(program.command, folder, tally, program.alone)
    whole = program.result(next(outputs))
    lost = [f"{out}: another result" for out in outputs if program.result(out) != whole]
    dice, twice = random.Random(f"{tally.seed} twice"), folder / "twice"
    if started_twice(program, twice, dice, tally.seconds) != whole:
        lost.append(f"{twice}: another result")
    return lost


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="of all programs together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    logging.getLogger("filelock").setLevel(logging.WARNING)
    root, failed = Path(tempfile.mkdtemp(prefix="kills-")), False
    print(f"{root}: seed {options.seed}", file=sys.stderr)
    print(f"{'program':<13}{'kills':>7}{'lost':>6}{'seconds':>9}")
    for number, name in enumerate(options.only):
        wanted = len(range(number, options.kills, len(options.only)))
        tally, folder = Tally(wanted, options.seed), root / name
        folder.mkdir()
        begin = time.monotonic()
        try:
            lost = lost_by(PROGRAMS[name](root), folder, tally)
        except AssertionError:
            lost = [traceback.format_exc()]
        seconds = time.monotonic() - begin
        counts = f"{tally.kills:>7}{len(lost):>6}"
        print("\n  ".join([f"{name:<13}{counts}{seconds:>9.0f}", *lost]), flush=True)
        failed |= bool(lost)
    sys.exit(failed)


if __name__ == "__main__":
    main()
