"""The JSON of scored systems, read by posattn-report and by the tables of the recipes."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from random import Random

from .classes_logs import write
from .mutations import JSON
from .registry import Command, add, calling, program

EXTREMES = ["1e15", "-1e15", "1e16", "1e-320", "-0.0", "1e400", "9" * 400, "123456789012345", "-1"]


def extreme_number(data: bytes, random: Random) -> bytes:
    """Another number, which JSON can spell and a float perhaps cannot hold."""
    found = [match.span() for match in re.finditer(rb"(?<=: )-?[0-9.]+(?=[,}\n])", data)]
    begin, end = random.choice(found) if found else (0, 0)
    return data[:begin] + random.choice(EXTREMES).encode() + data[end:]


SYSTEMS = [*JSON, *[extreme_number] * 8]


def attention(pieces: int) -> dict:
    weights = base64.b64encode(bytes(range(2 * 2 * pieces * pieces))).decode()
    return {"layers": 2, "heads": 2, "queries": pieces, "keys": pieces, "weights": weights}


EXAMPLES = [
    {
        "number": 17,
        "words": ["The", "dog", "barks"],
        "parents": [2, 3, 0],
        "depths": [2, 1, 0],
        "relations": ["det", "nsubj", "root"],
        "pieces": ["The", "do@@", "g", "barks", "</s>"],
        "translation": "Der Hund bellt",
        "reference": "Der Hund bellte",
        "attention": attention(5),
    },
    {
        "number": 3,
        "words": ["no", "tree"],
        "parents": None,
        "pieces": ["no", "tree", "</s>"],
        "translation": "",
        "reference": None,
        "attention": {**attention(3), "largest": 1.5},
    },
]
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def system(name: str, bleu: float, test: str = "test") -> dict:
    scores = {"BLEU": bleu, "TER": 60.0, "tokenised BLEU": bleu + 1}
    buckets = [{"from": 1, "to": 10, "sentences": 7, "bleu": bleu}]
    buckets += [{"from": 11, "to": None, "sentences": 3, "bleu": bleu}]
    return {
        "version": 1,
        "system": name,
        "test": test,
        "source": "en",
        "target": "de",
        "sentences": 10,
        "references": 1,
        "scores": {key: {"score": s, "signature": SIGNATURE} for key, s in scores.items()},
        "ngrams": [{"n": n, "bleu": bleu, "precision": bleu} for n in range(1, 9)],
        "buckets": {"length": buckets, "depth": buckets},
        "baseline": {
            "system": "sequence",
            "significance": "bs:1000|ar:1000|seed:12345",
            "scores": {"BLEU": {"difference": 1.0, "bootstrap_p": 0.004, "mark": "⇑"}},
            "ngrams": [{"n": n, "bleu": 0.5, "precision": -0.5} for n in range(1, 9)],
        },
        "speed": {"translation": {"sentences": 10, "sentences_per_second": 240.5}},
        "training": {
            "parameters": 65_400_832,
            "architecture": "transformer",
            "words_per_second": 8000.4,
            "curve": [
                {"update": 1000, "train_loss": 5.5, "valid_loss": None},
                {"update": 2000, "train_loss": 5.0, "valid_loss": 5.1},
            ],
        },
    }


WORDS = {"name": "2–4", "words": 9, "precision": 40.5, "recall": 50.0, "f1": 45.0}
HEADS = {
    "sentences": 9,
    "neighbours": 0.5,
    "heads": [
        {"layer": 0, "head": k, "entropy": 1.5, "distance": 2.5, "tree_edges": 0.25} for k in (0, 1)
    ],
    "numbers": [{"place": "a.b", "mechanism": "c", "name": "d", "heads": [1], "values": [0.5]}],
}


def reported(folder: Path) -> None:
    more = {"examples": EXAMPLES, "heads": HEADS, "words": {"frequency": [WORDS], "pos": [WORDS]}}
    write(folder / "a.json", json.dumps({**system("csan", 27.5), **more}))
    write(folder / "b.json", json.dumps(system("sequence", 26.5)))


add("report", reported, "*.json", SYSTEMS, "out.html", share=0.5)(
    lambda folder: Command(
        program("report"), [folder / "a.json", folder / "b.json", "--out", folder / "out.html"]
    )
)

# the tables of the recipes


def results(folder: Path) -> None:
    for name, bleu in (("sequence", 20.0), ("csan_2d", 21.0)):
        for test in ("dev", "test"):
            write(folder / f"results/{name}.base.{test}.json", json.dumps(system(name, bleu, test)))


def table(folder: Path) -> Command:
    """The tables in all three formats, from results that lie there."""
    from fairseq_posattn.lab.experiments.recipe_content import Row
    from fairseq_posattn.lab.experiments.tables import lines_of, write_tables

    rows = [Row("sequence", "base"), Row("csan_2d", "base", published={"test": 28.18})]
    found = {
        (row.system, test, "sequence"): folder / f"results/{row.system}.{test}.json"
        for row in rows
        for test in ("dev", "test")
    }

    def write_all() -> None:
        lines = lines_of(rows, ["dev", "test"], found, ["sequence"])
        print("\n".join(write_tables(lines, folder / "out")))

    return Command(write_all)


add(
    "results: table",
    results,
    "results/sequence.* results/csan_2d.*",
    SYSTEMS,
    "out.md out.csv out.tex",
)(table)


def sweep(folder: Path) -> None:
    from fairseq_posattn.lab.experiments.sweeps import bleu_of, write

    base, window = (
        bleu_of(folder / f"results/{name}.base.dev.json") for name in ("sequence", "csan_2d")
    )
    write({("size", 3): window, ("size", 11): window}, base, folder / "out")


add("results: sweep", results, "results/*.dev.json", SYSTEMS, "out.md out.png", share=0.3)(
    calling(sweep)
)
