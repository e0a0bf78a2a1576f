"""Records of a study, which table.sh --from-study reads: generated fields, names and copies.

Whatever a record says, no path leads elsewhere, and runs that differ are not pooled.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from random import Random

from .registry import add, calling

RECIPE = """
title = "x"
source = "en"
target = "de"
corpus = { valid = "dev", tests = ["test"] }
models = [{ model = "sequence", size = "base" }, { model = "relative", size = "base" }]
sizes.base = { arch = "_tiny", updates = 2, batch_tokens = 1000 }
"""
PATHS = ("../../x", "/tmp/x", "-o", "--json", "..", ".", "", "a/b", "a\0b", "a\nb", "x" * 300)
WORDS = ("--lr", "--lr=1", "0.1", "--seed", "1", "2", "--", "-1", "", "--dropout", "\x1b[31m", "é")
ANY = (
    None,
    True,
    0,
    -1,
    10**18,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "äß名🜚",
    [],
    [[1]],
    {},
    *PATHS,
)
NAMES = (*PATHS, "sequence", "relative", "base", "own", "chain", "\u202e\x07 ")
NUMBERS = (0, 1, 2, 3, -1, 10**30)
FIELDS: dict[str, tuple] = {  # values as the field has them, which may be another run's
    **dict.fromkeys(("name", "size", "trees", "tested", "pooled_because"), NAMES),
    **dict.fromkeys(("seed", "updates"), NUMBERS),
    **dict.fromkeys(("options", "versions"), ([], ["--lr", "0.1"], ["--seed", "2"], WORDS)),
    "files": ({"dict.en.txt": {"sha256": "1"}}, {"": {"sha256": ""}}, {"a/b": {}}),
    "references": ({"test": ["0" * 64]}, {"test": []}, {"gen": [1]}, {"test": "x"}),
    "translated": ({"beam": 5}, {"beam": "5"}, {"lenpen": 0.5}, {"äß": 1}),
}


def record_in(data: bytes) -> dict:
    """Return the record, or an empty one where another mutation has left none."""
    record = json.loads(data)
    return record if isinstance(record, dict) else {}


def other_fields(data: bytes, random: Random) -> bytes:
    """Give a record fields that fit it more or less."""
    record = record_in(data)
    for key in random.sample(list(FIELDS), random.randint(1, 3)):
        record[key] = random.choice(FIELDS[key] if random.random() < 0.7 else ANY)
    return json.dumps(record).encode()


def fields_of_another_run(data: bytes, random: Random) -> bytes:
    """Take the identity of another run."""
    record = record_in(data)
    record |= {"name": random.choice(["sequence", "relative"]), "seed": random.randint(1, 3)}
    if random.random() < 0.5:
        record["options"] = ["--lr", "0.1", "--seed", str(record["seed"])]
    return json.dumps(record).encode()


def another_shape(data: bytes, random: Random) -> bytes:
    """Write what is no record, or is one in other words."""
    record = record_in(data)
    shapes = [random.choice(ANY), [record], {"record": record}, dict(reversed(record.items()))]
    return json.dumps(random.choice(shapes), ensure_ascii=random.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )


def build(folder: Path) -> None:
    (folder / "recipe.toml").write_text(RECIPE)
    for name in ("work/raw/train", "work/raw/dev", "work/raw/test"):
        for language in ("en", "de"):
            path = folder / f"{name}.{language}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a b\nc d\n")
    (folder / "study").mkdir()
    for name in ("sequence", "relative"):
        for seed in (1, 2):
            start = folder / f"study/{name}.base.seed{seed}"
            record = {"name": name, "size": "base", "seed": seed, "updates": 2, "trees": "own"}
            record |= {"options": ["--lr", "0.1", "--seed", str(seed)], "tested": ""}
            record |= {"files": {"dict.en.txt": {"bytes": 1, "sha256": "0"}}, "versions": ["1"]}
            Path(f"{start}.json").write_text(json.dumps(record))
            Path(f"{start}.test.xz").write_bytes(lzma.compress(b"a b\nc d\n"))


def run_together(runs) -> bool:
    """Return whether runs differ in nothing but the seed, as their documents tell."""

    def told(run) -> list:
        record = json.loads(run.file.read_text("utf-8"))
        words = [word for word in record["options"] if word not in ("--seed", "1", "2", "3")]
        keys = ("updates", "trees", "files")
        return [*(record[key] for key in keys), words, record.get("translated") or {}]

    return all(told(run) == told(runs[0]) for run in runs if not run.record.pooled_because)


@add(
    "records of a study",
    build,
    "study/*.json",
    [other_fields, other_fields, fields_of_another_run, another_shape],
    "out.*",
    also_named="seed1.json seed2.json seed3.json",
)
@calling
def pool(folder: Path) -> None:
    """What table.sh --from-study does before it scores: each run is written a file."""
    from fairseq_posattn.experiments.recipe_options import Table
    from fairseq_posattn.experiments.translation import Translation, of_system

    experiment = Translation(Table(recipe=str(folder), from_study=True))
    rows = experiment.rows(None)
    runs = experiment.finished(rows, [])
    assert len({run.name for run in runs}) == len(runs), "a run counts twice"
    for row in rows:
        of_row = of_system(runs, row.system)
        without = [run for run in of_row if not run.record.pooled_because]
        assert run_together(without or of_row), "runs that differ are pooled"
        for run in of_row:
            assert run.scored("test").parent == folder / "study"
            out = folder / f"out.{run.name}"
            out.write_text("scored")
