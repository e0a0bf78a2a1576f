"""Write the lookup-table task (Liška et al. 2018, extended to longer sequences by Dubois et al.).

    python recipes/lookup/tables.py OUT --seed 1

A table is a random bijection over the strings of three bits; there are eight, t1 to t8. A source is
a string followed by the names of tables. Its target is the string, followed by the result of
applying each table to the preceding string:

    000 t3 t7        000 t3(000) t7(t3(000))

The files OUT/{train,valid,test}.{src,tgt} are written, and OUT/test.kinds, which names the kind of
each test line (KINDS). The training data consist of single tables and compositions of two tables.
They contain t7 and t8 as single tables only, and not all compositions of the others. For each
composition in the training data, one input is held out for valid and another one for test.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import folder_written_whole

STRINGS = tuple("".join(bits) for bits in product("01", repeat=3))
TABLES = tuple(f"t{number}" for number in range(1, 9))
COMPOSED = TABLES[:6]
UNSEEN_COMPOSITIONS = 8
LONGEST_TRAINED = 2  # maximum number of tables in a training example

INPUTS, COMPOSITIONS, HELD_OUT_TABLES, LONGER = KINDS = (
    "held-out inputs",  # new inputs of compositions in the training data
    "held-out compositions",  # new compositions of tables that occur in training compositions
    "held-out tables",  # compositions with a table that training contains only as a single table
    "longer",  # three or more tables, all of which occur in training compositions
)


class Example(NamedTuple):
    """A source: the first string, and the tables to apply in order."""

    string: str
    tables: tuple[str, ...]

    @property
    def source(self) -> str:
        return " ".join([self.string, *self.tables])


class Splits(NamedTuple):
    """The examples of each split; those of test by kind."""

    train: list[Example]
    valid: list[Example]
    test: dict[str, list[Example]]


def draw_tables(rng: random.Random) -> dict[str, dict[str, str]]:
    """Draw all tables, as mappings from strings to strings, by name."""
    return {
        name: dict(zip(STRINGS, rng.sample(STRINGS, len(STRINGS)), strict=True)) for name in TABLES
    }


def look_up(tables: dict[str, dict[str, str]], example: Example) -> str:
    """Return the target of an example."""
    strings = [example.string]
    for name in example.tables:
        strings.append(tables[name][strings[-1]])
    return " ".join(strings)


def draw_splits(rng: random.Random, longest: int, sequences: int) -> Splits:
    """Draw all examples, split into training, validation and test sets."""
    train = [Example(string, (name,)) for name in TABLES for string in STRINGS]
    valid, inputs = [], []
    trained, unseen = split_compositions(rng)
    for pair in trained:
        for_test, for_valid, *seen = rng.sample(STRINGS, len(STRINGS))
        inputs.append(Example(for_test, pair))
        valid.append(Example(for_valid, pair))
        train += [Example(string, pair) for string in seen]
    with_held_out = [pair for pair in product(TABLES, repeat=2) if set(pair) - set(COMPOSED)]
    test = {
        INPUTS: inputs,
        COMPOSITIONS: on_all_strings(unseen),
        HELD_OUT_TABLES: on_all_strings(with_held_out),
        LONGER: [e for n in range(3, longest + 1) for e in draw_longer(rng, n, sequences)],
    }
    rng.shuffle(train)
    return Splits(train, valid, test)


def split_compositions(rng: random.Random) -> tuple[list, list]:
    """Return the pairs of tables for training, and the held-out ones."""
    pairs = rng.sample(list(product(COMPOSED, repeat=2)), len(COMPOSED) ** 2)
    return pairs[UNSEEN_COMPOSITIONS:], pairs[:UNSEEN_COMPOSITIONS]


def on_all_strings(pairs: Iterable[tuple[str, ...]]) -> list[Example]:
    return [Example(string, pair) for pair in pairs for string in STRINGS]


def draw_longer(rng: random.Random, length: int, count: int) -> list[Example]:
    """Draw `count` distinct examples with `length` tables."""
    drawn: dict[Example, None] = {}  # an ordered set
    while len(drawn) < count:
        drawn[Example(rng.choice(STRINGS), tuple(rng.choices(COMPOSED, k=length)))] = None
    return list(drawn)


def write(folder: Path, name: str, examples: Iterable[Example], tables) -> None:
    examples = list(examples)
    write_lines(folder / f"{name}.src", [example.source for example in examples])
    write_lines(folder / f"{name}.tgt", [look_up(tables, example) for example in examples])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def check(args: argparse.Namespace) -> None:
    if args.longest <= LONGEST_TRAINED:
        raise InputError(
            f"--longest {args.longest}: training examples already have up to {LONGEST_TRAINED} "
            f"tables; use at least {LONGEST_TRAINED + 1}"
        )
    most = len(STRINGS) * len(COMPOSED) ** (LONGEST_TRAINED + 1)
    if not 1 <= args.sequences <= most:
        raise InputError(
            f"--sequences {args.sequences}: only {most} sequences of {LONGEST_TRAINED + 1} tables "
            f"exist; use 1 to {most}"
        )
    if args.repeat < 1:
        raise InputError(f"--repeat {args.repeat} is not positive; use 1 or more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the files")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: %(default)s)")
    parser.add_argument(
        "--longest",
        type=int,
        default=9,
        help="number of tables of the longest test lines (default: %(default)s)",
    )
    parser.add_argument(
        "--sequences",
        type=int,
        default=100,
        help="number of test lines for each length above 2 (default: %(default)s)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        help="copies of each training example, for longer epochs (default: %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the folder if it exists")
    args = parser.parse_args()
    check(args)
    rng = random.Random(args.seed)
    tables = draw_tables(rng)
    splits = draw_splits(rng, args.longest, args.sequences)
    with folder_written_whole(args.out, replace=args.overwrite) as folder:
        write(folder, "train", splits.train * args.repeat, tables)
        write(folder, "valid", splits.valid, tables)
        write(folder, "test", (e for kind in KINDS for e in splits.test[kind]), tables)
        write_lines(folder / "test.kinds", [k for k in KINDS for _ in splits.test[k]])


if __name__ == "__main__":
    command_line.run(main)
