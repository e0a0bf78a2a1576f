"""Numbers on the command line: each option is a file of the folder, which holds its value."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from .classes_checkpoints import build as build_checkpoints
from .corpora import TARGET, WORDS, copy_binarised, learn_merges, translation_model, write_text
from .registry import Command, add, program

ODD = ["nan", "inf", "-inf", "-1", "-0", "0", "00", "1", "2", "1e308", "-1e308", "1e309", "1e-320"]
ODD += [
    "1_0",
    "１０",
    "٣",
    "²",
    "+1",
    " 1",
    "1 ",
    "",
    " ",
    "0x10",
    "1.5",
    "1.0",
    "1e2",
    ".5",
    "1,2",
]
ODD += ["9" * 10, "9" * 30, "9" * 400, "-" + "9" * 30, "2147483648", "4294967296", "None", "true"]
ODD += ["-", "--", "1\n2", "\t", "1j", "[1]", "1;2", "${x}", "%", "é"]


def another_number(data: bytes, random: Random) -> bytes:
    """A number that is odd in itself, or one of any size."""
    size = random.choice([1, 3, 8, 20, 300])
    drawn = random.choice([str(random.randrange(10**size)), f"{random.gauss(0, 10**8):.3g}"])
    return random.choice([*ODD, drawn]).encode()


def given(folder: Path) -> list[str]:
    """The options and their values."""
    files = sorted((folder / "options").iterdir())
    return [f"{file.name}={file.read_text('utf-8')}" for file in files]


def add_numbers(name: str, build: Callable, command: Callable, left: str = "", **values) -> None:
    """Add a class of one command; the values are the sound ones of its options."""

    def build_all(folder: Path) -> None:
        build(folder)
        (folder / "options").mkdir()
        for option, value in values.items():
            (folder / "options" / f"--{option.replace('_', '-')}").write_text(str(value))

    def run(folder: Path) -> Command:
        main, *arguments = command(folder)
        return Command(main, [*arguments, *given(folder)])

    mutations = [another_number]
    add(f"numbers of {name}", build_all, "options/*", mutations, "*", left=left)(run)


# fairseq's programs


def with_model(folder: Path) -> None:
    copy_binarised(folder)
    shutil.copy(translation_model() / "run/checkpoint_last.pt", folder / "model")
    (folder / "text").write_text("".join(f"{line}\n" for line in WORDS if line), "utf-8")


def quietly(name: str) -> Callable[[], None]:
    """One of fairseq's programs, which needs to print no tables."""

    def main() -> None:
        from fairseq_posattn.cli.fairseq_programs import run_fairseq
        from support.quick_hydra import quick_hydra

        with quick_hydra():
            run_fairseq(name)

    return main


def translating(name: str, *more: str) -> Callable[[Path], list]:
    common = ["--task", "structured_translation", "-s", "de", "-t", "en", "--cpu", *more]
    common += ["--missing-tree", "flat"]
    return lambda folder: [quietly(name), folder / "data", *common, "--path", folder / "model"]


SEARCH = {"beam": 2, "nbest": 1, "max_len_a": 0, "max_len_b": 5, "min_len": 1, "lenpen": 1}
SEARCH |= {"unkpen": 0, "temperature": 1.0, "no_repeat_ngram_size": 0, "prefix_size": 0, "seed": 1}
SEARCH |= {"sampling_topk": -1, "sampling_topp": -1}
SEARCH |= {"diverse_beam_strength": 0.5, "diversity_rate": -1, "batch_size": 4, "max_tokens": 300}
SEARCH |= {"num_workers": 0, "required_batch_size_multiple": 8, "data_buffer_size": 10}
SEARCH |= {"log_interval": 100}
add_numbers("generate", with_model, translating("generate", "--gen-subset", "valid"), **SEARCH)
add_numbers(
    "interactive",
    with_model,
    lambda folder: [*translating("interactive")(folder), "--input", folder / "text"],
    **SEARCH,
    buffer_size=10,
)

# our own


def texts(folder: Path) -> None:
    write_text(folder)
    learn_merges(folder)
    (folder / "hyp").write_text("".join(f"{line}\n" for line in TARGET), "utf-8")


add_numbers(
    "average",
    build_checkpoints,
    lambda folder: [program("average"), folder / "run", "--out", folder / "out.pt"],
    last=2,
)
add_numbers(
    "segment learn",
    texts,
    lambda folder: [
        *(program("segment"), "learn", folder / "train.de", "--sentencepiece", folder / "model")
    ],
    symbols=45,
    character_coverage=0.99,
)
add_numbers(
    "segment learn of merges",
    texts,
    lambda folder: [
        *(program("segment"), "learn", folder / "train.de", "--codes", folder / "merges")
    ],
    symbols=30,
    min_frequency=2,
)
add_numbers(
    "score",
    texts,
    lambda folder: [
        *(program("score"), folder / "hyp", "--references", folder / "train.en", "-t", "en"),
        *("--baseline", folder / "train.de"),
    ],
    sentences=3,
)
add_numbers(
    "trees",
    texts,
    lambda folder: [
        *(program("trees"), folder / "train.conllu", "--control", "own"),
        *("--out", folder / "out.conllu"),
    ],
    flip=0.2,
    control_seed=2,
)
add_numbers(
    "prepare",
    texts,
    lambda folder: [
        *(program("prepare"), "--source", "de", "--target", "en", "--train", folder / "train"),
        *("--valid", folder / "train", "--test", folder / "train", "--parser", "none"),
        *("--control", "random", "--segmenter", "subword-nmt", "--tokenize", "spaces"),
        *("--out", folder / "data"),
    ],
    left="data* data/* data.work/*",
    symbols=30,
    min_frequency=2,
    learn_lines=8,
    min_length=1,
    max_length=100,
    max_ratio=3.0,
    max_source_length=100,
    flip=0.2,
    control_seed=1,
    shard_lines=100,
    workers=1,
    binarize_workers=1,
    shards=1,
)
