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
KEYS = ("name", "size", "seed", "updates", "trees", "tested", "options", "files", "versions")
KEYS += ("references", "translated", "pooled_because")
PATHS = ("../../x", "/tmp/x", "-o", "--json", "..", ".", "", "a/b", "a\0b", "a\nb", "x" * 300)
WORDS = ("--lr", "--lr=1", "0.1", "--seed", "1", "2", "--", "-1", "", "--dropout", "\x1b[31m", "é")


def text(random: Random) -> str:
    letters = random.choice(["abc", "../-", "_+.", "äß名🜚", "\u202e\x07 "])
    return "".join(random.choices(letters, k=random.randint(0, 12)))


def value(random: Random, depth: int = 0):
    """Return any value of JSON, most of them small."""
    kind = random.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return [value(random, depth + 1) for _ in range(random.randint(0, 3))]
    if kind == 6:
        return {text(random): value(random, depth + 1) for _ in range(random.randint(0, 3))}
    numbers = [0, 1, 2, -1, 10**18, 1.5, float("inf"), float("nan")]
    return [text(random), random.choice(numbers), None, True, random.choice(PATHS)][kind]


def field_of_the_kind(key: str, random: Random):
    """Return a value as the field has it, which may be another run's."""
    if key in ("seed", "updates"):
        return random.choice([0, 1, 2, 3, -1, 10**30])
    if key in ("name", "size", "trees", "tested"):
        return random.choice([*PATHS, "sequence", "relative", "base", "own", "chain", text(random)])
    if key in ("options", "versions"):
        return random.choices(WORDS, k=random.randint(0, 5))
    if key == "translated":
        return {random.choice(["beam", "lenpen", text(random)]): random.choice([1, 5, 0.5, "5"])}
    if key == "references":
        return {random.choice(["test", "gen"]): random.choice([["0" * 64], [], [1], "x"])}
    if key == "files":
        return {random.choice(["dict.en.txt", text(random)]): {"sha256": text(random)}}
    return text(random)


def record_in(data: bytes) -> dict:
    """Return the record, or an empty one where another mutation has left none."""
    record = json.loads(data)
    return record if isinstance(record, dict) else {}


def other_fields(data: bytes, random: Random) -> bytes:
    """Give a record fields that fit it more or less."""
    record = record_in(data)
    for key in random.sample(KEYS, random.randint(1, 3)):
        record[key] = field_of_the_kind(key, random) if random.random() < 0.7 else value(random)
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
    shapes = [value(random), [record], {"record": record}, dict(reversed(record.items()))]
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
        words = [word for word in record["options"] if word not in ("1", "2", "3")]
        keys = ("updates", "trees", "files")
        return [*(record[key] for key in keys), words, record.get("translated") or {}]

    return all(told(run) == told(runs[0]) for run in runs if not run.record.pooled_because)


@add(
    "records of a study",
    build,
    "study/*.json",
    [other_fields, other_fields, fields_of_another_run, another_shape],
    "work/study/*/evaluate.log",
    also_named="seed1.json seed2.json seed3.json",
)
@calling
def pool(folder: Path) -> None:
    """What table.sh --from-study does before it scores: each row is written a log."""
    from fairseq_posattn.lab.experiments.experiment import Settings
    from fairseq_posattn.lab.experiments.translation import Translation, of_system

    experiment = Translation(folder / "recipe.toml", folder / "work", Settings(from_study=True))
    rows = experiment.rows(None)
    runs = experiment.finished(rows, [])
    assert len({run.name for run in runs}) == len(runs), "a run counts twice"
    for row in rows:
        of_row = of_system(runs, row.system)
        without = [run for run in of_row if not run.record.pooled_because]
        assert run_together(without or of_row), "runs that differ are pooled"
        for run in of_row:
            assert run.scored("test").parent == folder / "study"
            run.folder.mkdir(parents=True, exist_ok=True)
            (run.folder / "evaluate.log").write_text("scored")
