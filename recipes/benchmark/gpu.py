"""Check and measure everything on one GPU; see `gpu.sh` for its usage.

a: with each of a mechanism's example options, the output in float32, bfloat16 and float16 must be
   close to that in float64 on the CPU, and gradients must be finite; in short training runs of most
   mechanisms, with fairseq-train in all its precisions, and with torchrun, the loss must decrease.
b: training speed of most mechanisms in bfloat16 at the sizes Base and Big, translation speed, and
   peak memory (`train_speed.py`, `generate_speed.py`).
c: windows compared with FlexAttention, flash-attn and local-attention, if installed (`peers.py`),
   and time and memory of attention by length (`attention_scaling.py`).
d: training with --compile, compared with stock fairseq without it (`train_speed.py`).
e: windows and blocks with and without FlexAttention, by length (`attention_scaling.py`).
f: output projection and loss, at once and in parts (`loss_speed.py`).
g: BLEU of four models on Multi30k with three seeds each, twelve runs at once.
h: training with the slowest mechanisms, without and with --compile (`train_speed.py`).

Each part is a list of cells. The result of each cell is saved as soon as it is complete, and is not
computed again on the same machine with the same version of torch. Training in part g resumes from
its last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import gpu_cells
import torch
from gpu_cells import Cell, TimeLimit, cells, failure
from setting import machine, quiet

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import write_json

SECONDS = 570  # time limit of a part
PARTS = "abcdefgh"
PREPARED = Path(__file__).parents[1] / "multi30k_en_de/work"


def do_part(part: str, todo: list[Cell], out: Path, seconds: float) -> bool:
    """Run the remaining cells of a part within a time limit; return whether all are complete."""
    path, began = out / f"{part}.jsonl", time.monotonic()
    before = records(path)
    with written_whole(path) as file:  # drop a line that an interruption has truncated
        file.writelines(json.dumps(record) + "\n" for record in before)
    done = {(record["machine"], record["name"]) for record in before}
    left = [cell for cell in todo if (machine(), cell.name) not in done]
    gpu_cells.limit = began + seconds
    for number, cell in enumerate(left):
        if time.monotonic() - began > seconds:
            print(f"part {part}: {len(left) - number} cells are left; run it again to resume")
            return False
        print(f"part {part}, {number + 1} of {len(left)}: {cell.name} ...", flush=True)
        try:
            rows = rows_of(cell)
        except TimeLimit:
            print(f"part {part}: {len(left) - number} cells are left; run it again to resume")
            return False
        record = {"machine": machine(), "part": part, "name": cell.name, "rows": rows}
        with open(path, "a") as file:
            file.write(json.dumps(record) + "\n")
    return True


def rows_of(cell: Cell) -> list[dict]:
    """Run a cell; an exception becomes a row that reports the failure."""
    try:
        return cell.run()
    except TimeLimit:
        raise
    except Exception as error:
        return [failure(f"{type(error).__name__}: {error}")]


def records(path: Path) -> list[dict]:
    """Read saved results; skip a line that an interruption has truncated."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def table(found: list[dict]) -> str:
    """Format all rows as Markdown, with one table per part."""
    lines = []
    for part in PARTS:
        rows = [
            (one["name"], " · ".join(f"{k}: {shown(v)}" for k, v in row.items() if v is not None))
            for one in found
            if one["part"] == part
            for row in one["rows"]
        ]
        if rows:
            lines += [f"## Part {part}", "", "| What | Found |", "|---|---|"]
            lines += ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows]
            lines.append("")
    return "\n".join(lines)


def shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run the requested parts, and write gpu.json and gpu.md."""
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("--part", choices=PARTS, help="run only this part (default: all)")
    parser.add_argument(
        "--small", action="store_true", help="try all parts with small sizes, even without a GPU"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="time limit of each part in seconds"
    )
    parser.add_argument(
        "--multi30k",
        type=Path,
        default=PREPARED,
        help="folder in which recipes/prepare.sh prepared Multi30k (default: %(default)s)",
    )
    options = parser.parse_args()
    quiet()
    if not torch.cuda.is_available() and not options.small:
        raise InputError("no GPU is available; add --small to try all parts without one")
    options.out.mkdir(parents=True, exist_ok=True)
    todo, whole = list(cells(options.small, options.multi30k)), True
    for part in options.part or PARTS:
        mine = [cell for cell in todo if cell.part == part]
        if not mine:
            print(
                f"part {part}: not measured, because {options.multi30k} contains no prepared data"
            )
        whole &= do_part(part, mine, options.out, options.seconds)
        print(table(records(options.out / f"{part}.jsonl")))
    found = [record for part in PARTS for record in records(options.out / f"{part}.jsonl")]
    write_json(str(options.out / "gpu.json"), found, indent=1)
    with written_whole(options.out / "gpu.md") as file:
        file.write(f"{machine()}\n\n{table(found)}")
    failed = [r["name"] for r in found for row in r["rows"] if "FAILED" in str(row.get("found"))]
    print(f"{options.out / 'gpu.md'}: {len(found)} cells, {len(failed)} failures")
    if failed:
        raise InputError(f"{', '.join(failed[:10])} failed; see {options.out / 'gpu.md'}")
    if not whole:
        raise InputError("the time limit was reached; run the same command again to resume")


if __name__ == "__main__":
    command_line.run(main)
