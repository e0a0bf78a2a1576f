"""The JSON of scored systems, read by posattn report and by the tables of the recipes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

from support.scored_systems import example, heads, scored

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


EXAMPLES = [
    example(17, ["The", "dog", "barks"], [2, 3, 0], ["det", "nsubj", "root"]),
    {**example(3, ["no", "tree"], None), "reference": None},
]
HEADS = heads()


def system(name: str, bleu: float, test: str = "test") -> dict:
    """What posattn score writes, without its largest parts."""
    found = scored(name, test, bleu - 27)
    return {key: value for key, value in found.items() if key not in ("examples", "heads", "words")}


def reported(folder: Path) -> None:
    more = {"examples": EXAMPLES, "heads": HEADS, "words": scored()["words"]}
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
    from fairseq_posattn.experiments.recipe_content import Row
    from fairseq_posattn.experiments.tables import lines_of, table_of
    from fairseq_posattn.scoring.tables import write_tables

    rows = [Row("sequence", "base"), Row("csan_2d", "base", published={"test": 28.18})]
    found = {
        (row.system, test, "sequence"): folder / f"results/{row.system}.{test}.json"
        for row in rows
        for test in ("dev", "test")
    }

    def write_all() -> None:
        lines = lines_of(rows, ["dev", "test"], found, ["sequence"])
        print("\n".join(write_tables([table_of(lines)], folder / "out")))

    return Command(write_all)


add(
    "results: table",
    results,
    "results/sequence.* results/csan_2d.*",
    SYSTEMS,
    "out.md out.csv out.tex",
)(table)


def sweep(folder: Path) -> None:
    from fairseq_posattn.experiments.tables import main_of, write_sweep

    base, window = (
        main_of(folder / f"results/{name}.base.dev.json") for name in ("sequence", "csan_2d")
    )
    write_sweep({("size", 3): window, ("size", 11): window}, base, folder / "out")


add("results: sweep", results, "results/*.dev.json", SYSTEMS, "out.md out.png", share=0.3)(
    calling(sweep)
)
