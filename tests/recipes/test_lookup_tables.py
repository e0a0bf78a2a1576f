"""recipes/lookup/tables.py keeps the promises on which the accuracies of its recipe rest."""

import random
import sys
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.commands import ROOT, run, script

SCRIPT = ROOT / "recipes/lookup/tables.py"


lookup = script(SCRIPT)
seeds = st.integers(0, 2**32)
few = settings(max_examples=25)


def draw(seed, longest=9, sequences=20):
    rng = random.Random(seed)
    return lookup.draw_tables(rng), lookup.draw_splits(rng, longest, sequences)


def parts(splits):
    return {"train": splits.train, "valid": splits.valid, **splits.test}


@given(seeds)
@few
def test_tables_are_bijections_over_the_strings(seed):
    tables, _ = draw(seed)
    assert list(tables) == [f"t{n}" for n in range(1, 9)]
    strings = {"".join(bits) for bits in product("01", repeat=3)}
    for table in tables.values():
        assert set(table) == set(table.values()) == strings


@given(seeds)
@few
def test_a_target_is_looked_up_from_left_to_right(seed):
    tables, splits = draw(seed)
    for example in [e for part in parts(splits).values() for e in part]:
        first, *names = example.source.split()
        words = lookup.look_up(tables, example).split()
        assert len(words) == len(names) + 1 and words[0] == first
        for name, before, after in zip(names, words, words[1:], strict=False):
            assert tables[name][before] == after


@given(seeds)
@few
def test_nothing_is_in_two_parts_or_twice_in_one(seed):
    _, splits = draw(seed)
    sources = {name: {e.source for e in part} for name, part in parts(splits).items()}
    for name, part in parts(splits).items():
        assert len(part) == len(sources[name]) > 0
    assert all(one.isdisjoint(other) for one, other in combinations(sources.values(), 2))


@given(seeds)
@few
def test_each_kind_is_new_in_the_way_it_says(seed):
    _, splits = draw(seed)
    trained = {e.tables for e in splits.train}
    composed = {name for tables in trained if len(tables) > 1 for name in tables}
    assert {tables for tables in trained if len(tables) == 1} == {(t,) for t in lookup.TABLES}
    assert max(map(len, trained)) == lookup.LONGEST_TRAINED == 2
    assert composed == set(lookup.COMPOSED)
    test = splits.test
    assert {e.tables for e in test[lookup.INPUTS]} <= trained
    assert {e.tables for e in splits.valid} <= trained
    for example in test[lookup.COMPOSITIONS]:
        assert example.tables not in trained and set(example.tables) <= composed
    for example in test[lookup.HELD_OUT_TABLES]:
        assert len(example.tables) == 2 and set(example.tables) - composed
    for example in test[lookup.LONGER]:
        assert set(example.tables) <= composed


def test_sizes():
    """They are those of the page."""
    _, splits = draw(1, sequences=100)
    counts = {name: len(part) for name, part in parts(splits).items()}
    tests = {"held-out inputs": 28, "held-out compositions": 64, "held-out tables": 224}
    assert counts == {"train": 232, "valid": 28, **tests, "longer": 7 * 100}
    lengths = sorted(len(example.tables) for example in splits.test["longer"])
    assert lengths == [n for n in range(3, 10) for _ in range(100)]


def files(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files_say_what_was_drawn_and_come_again_from_the_same_seed(tmp_path):
    options = ["--longest", 4, "--sequences", 5, "--repeat", 2]
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        run(sys.executable, SCRIPT, tmp_path / name, "--seed", seed, *options)
    found = files(tmp_path / "one")
    assert found == files(tmp_path / "same") and found != files(tmp_path / "other")
    tables, splits = draw(3, longest=4, sequences=5)
    examples = {"train": splits.train * 2, "valid": splits.valid}
    examples["test"] = [e for kind in lookup.KINDS for e in splits.test[kind]]
    for name, part in examples.items():
        assert found.pop(f"{name}.src").splitlines() == [e.source for e in part]
        assert found.pop(f"{name}.tgt").splitlines() == [lookup.look_up(tables, e) for e in part]
    kinds = [kind for kind in lookup.KINDS for _ in splits.test[kind]]
    assert found == {"test.kinds": "".join(f"{kind}\n" for kind in kinds)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--longest", 2],
            "--longest 2: training examples already have up to 2 tables; use at least 3",
        ),
        (["--sequences", 0], "--sequences 0: only 1728 sequences of 3 tables exist"),
        (["--sequences", 1729], "--sequences 1729: only 1728 sequences of 3 tables exist"),
        (["--repeat", 0], "--repeat 0 is not positive; use 1 or more"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, options, message):
    result = run(sys.executable, SCRIPT, tmp_path / "out", *options, check=False)
    assert result.returncode == 1 and not (tmp_path / "out").exists()
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"error: {message}")


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").touch()
    result = run(sys.executable, SCRIPT, tmp_path / "out", check=False)
    assert result.returncode == 1 and "already exists" in result.stdout
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
