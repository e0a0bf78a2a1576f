"""Logs of fairseq-generate and fairseq-train, read by the evaluation and by recipes."""

from __future__ import annotations

from pathlib import Path

from fairseq_posattn.files.files import write_json
from support.commands import script
from support.files import write

from .mutations import COLUMNS, JSON
from .registry import ROOT, Command, add, program

GENERATED = """\
2026-01-02 03:04:05 | INFO | fairseq.tasks.translation | [src] dictionary: 96 types
S-1\tEs reg@@ net .
T-1\tIt rains .
H-1\t-0.4012\tIt ra@@ ins .
D-1\t-0.4012\tIt ra@@ ins .
P-1\t-0.1000 -0.2000 -0.3000 -0.4000 -0.5000
A-1\t0-0 1-1 2-2
S-0\tDer Hund be@@ llt .
T-0\tThe dog barks .
H-0\t-1.25e-01\tThe dog bar@@ ks .
D-0\t-1.25e-01\tThe dog bar@@ ks .
P-0\t-0.1000 -0.2000 -0.3000 -0.4000
S-2\t
H-2\t-0.7\t
D-2\t-0.7\t
NOTE: hypothesis and token scores are output in base 2
2026-01-02 03:04:09 | INFO | fairseq_cli.generate | Translated 1,003 sentences (86,000 tokens) \
in 1.5s (668.67 sentences/s, 57333.33 tokens/s)
"""
CONFIGURED = """\
2026-01-02 03:04:05 | INFO | fairseq_cli.train | {'_name': None, 'common': {'seed': 1}, \
'model': {'_name': 'posattn_transformer', 'dropout': 0.1}, 'task': {'_name': 'x'}}
2026-01-02 03:04:06 | INFO | fairseq_cli.train | num. shared model params: 65,400,832 \
(num. trained: 65,400,832)
2026-01-02 03:04:06 | INFO | fairseq.trainer | No existing checkpoint found run/checkpoint_last.pt
"""
SIMPLE = """\
2026-01-02 03:04:07 | INFO | train_inner | epoch 001:  2 / 6 loss=7.1, nll_loss=7.0, ppl=130.2, \
wps=1234.5, ups=9.1, wpb=500, bsz=20, num_updates=2, lr=0.0002, gnorm=1.9, wall=3
2026-01-02 03:04:08 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 6.9 | ppl 119.4 \
| wps 5000 | wpb 400 | bsz 15 | num_updates 4
2026-01-02 03:04:08 | INFO | fairseq.checkpoint_utils | Saved checkpoint run/checkpoint_1_4.pt \
(epoch 1 @ 4 updates, score 6.9) (writing took 0.1 seconds)
2026-01-02 03:04:09 | INFO | fairseq.trainer | Loaded checkpoint run/checkpoint_1_4.pt \
(epoch 1 @ 4 updates)
2026-01-02 03:04:10 | INFO | train | epoch 001 | loss 6.5 | ppl 90.5 | wps 1200 | num_updates 6
"""
BY_JSON = """\
2026-01-02 03:04:07 | INFO | train_inner | {"epoch": 1, "update": 0.333, "loss": "7.1", \
"wps": "1234.5", "num_updates": "2", "lr": "0.0002"}
2026-01-02 03:04:08 | INFO | valid | {"epoch": 1, "valid_loss": "6.9", "valid_wps": "5000", \
"valid_num_updates": "4", "valid_best_loss": "6.9"}
2026-01-02 03:04:10 | INFO | train | {"epoch": 1, "train_loss": "6.5", "train_wps": "1200", \
"train_num_updates": "6"}
"""


# fairseq-generate


def generated(folder: Path) -> None:
    write(folder / "generate.log", GENERATED)
    write(folder / "hyp", "The dog barks.\nIt rains.\n\n")
    write(folder / "ref", "A dog barks.\nIt rains.\nYes.\n")


@add("generate log: texts", generated, "generate.log", COLUMNS, "out sources")
def extracted(folder: Path) -> Command:
    options = [folder, folder / "generate.log", "--out", folder / "out"]
    texts = program("translations")
    return Command(texts, [*options, "--sources", folder / "sources"])


def scored(option: str, name: str):
    def command(folder: Path) -> Command:
        options = [folder / "hyp", "--references", folder / "ref", "--json", folder / "out.json"]
        score = program("score")
        return Command(score, [*options, option, folder / name])

    return command


for option in ("--generate-log", "--parsing-log"):
    add(
        f"generate log: speed ({option})", generated, "generate.log", COLUMNS, "out.json", share=0.5
    )(scored(option, "generate.log"))


# fairseq-train


def trained(lines: str):
    def build(folder: Path) -> None:
        generated(folder)
        write(folder / "train.log", CONFIGURED + lines)

    return build


for name, lines in (("simple", SIMPLE), ("json", BY_JSON)):
    add(f"training log ({name})", trained(lines), "train.log", COLUMNS, "out.json")(
        scored("--train-log", "train.log")
    )


# the recipes that count what is right themselves


def measured(recipe: str, *arguments: str):
    """Return a command that writes what the trial.py of a recipe measures."""

    def command(folder: Path) -> Command:
        def main() -> None:
            function = getattr(script(ROOT / f"recipes/{recipe}/trial.py"), arguments[0])
            write_json(folder / "out.json", function(*(folder / name for name in arguments[1:])))

        return Command(main)

    return command


def looked_up(folder: Path) -> None:
    write(folder / "raw/test.src", "000 t1\n111 t2\n001 t1 t2 t3\n010 t1 t1 t1\n")
    write(folder / "raw/test.tgt", "000 101\n111 110\n001 010 011 100\n010 011 100 101\n")
    write(folder / "raw/test.kinds", "held-out compositions\n" * 2 + "longer\n" * 2)
    write(folder / "run/train.log", "num. shared model params: 1,234 (num.)\n")
    lines = [f"S-{n}\tx\nH-{n}\t-0.5\t000 101\n" for n in (3, 1, 0, 2)]
    write(folder / "run/generate.log", "".join(lines))


def toy(folder: Path) -> None:
    write(folder / "raw/test.tgt", "a b c\nd e\nf\n")
    write(folder / "raw/test.kinds", "ambiguous\ntie\nunambiguous\n")
    write(folder / "run/generate.log", GENERATED)
    write(folder / "run/train.log", CONFIGURED + BY_JSON)


for recipe, build, share in (("lookup", looked_up, 0.2), ("toy", toy, 0.5)):
    add(f"{recipe} recipe", build, "run/* raw/*", [*COLUMNS, *JSON[-4:]], "out.json", share=share)(
        measured(recipe, "measured", "run", "raw")
    )
