"""Score the models of the toy recipe: BLEU, and exact match by kind of sentence.

python recipes/toy/evaluate.py WORK --models recipes/toy/models.tsv --json toy.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sacrebleu.metrics import BLEU

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.fairseq_logs import generate_log as texts
from fairseq_posattn.evaluation.fairseq_logs import logs
from fairseq_posattn.evaluation.fairseq_logs.training_log import TRAIN, read_training
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines, same_number_of_lines, write_json
from fairseq_posattn.io.tables import read_rows

AGAIN = "delete the folder of the work and start recipes/toy/run.sh again"
KINDS = {  # column -> the kinds of test sentences that count in it
    "ambiguous_exact": ("ambiguous", "tie"),
    "tie_exact": ("tie",),
    "unambiguous_exact": ("unambiguous",),
}


def evaluate(folder: Path, work: Path) -> dict:
    """Return all figures of one model."""
    raw = work / "raw"
    same_number_of_lines([raw / "test.tgt", raw / "test.kinds"])
    references = list(read_lines(raw / "test.tgt"))
    translations = texts.outputs([str(folder / "generate.log")])
    if len(translations) != len(references):
        raise InputError(
            f"{folder}/generate.log: there are {len(translations)} translations of "
            f"{len(references)} sentences; {AGAIN}"
        )
    bleu = BLEU(tokenize="none")  # the toy language is tokenised
    return {
        "bleu": bleu.corpus_score(translations, [references]).score,
        "signature": str(bleu.get_signature()),
        **exact_matches(translations, references, read_kinds(raw / "test.kinds")),
        **speed_and_size(folder),
    }


def read_kinds(path: Path) -> list[str]:
    """Return the kind of each test sentence; every column needs one of its kinds."""
    kinds = list(read_lines(path))
    for members in KINDS.values():
        if not set(members) & set(kinds):
            raise InputError(f"{path}: no sentence is {' or '.join(members)}; {AGAIN}")
    return kinds


def exact_matches(translations: list[str], references: list[str], kinds: list[str]) -> dict:
    """Return the share of sentences that are translated exactly, in each column."""
    right = [t == r for t, r in zip(translations, references, strict=True)]
    shares = {}
    for column, members in KINDS.items():
        chosen = [r for r, kind in zip(right, kinds, strict=True) if kind in members]
        shares[column] = sum(chosen) / len(chosen)
    return shares


def speed_and_size(folder: Path) -> dict:
    """Return the size of a model, and the speeds of its training and translation."""
    log = folder / "train.log"
    training = read_training([str(log)])
    speeds = list(training.speeds.get(TRAIN, {}).values())
    if not training.parameters or not speeds:
        raise InputError(f"{log}: the log does not tell the model's size and speed; {AGAIN}")
    return {
        "parameters": training.parameters,
        "train_words_per_second": speeds[-1],
        "generate_sentences_per_second": logs.translated(
            folder / "generate.log"
        ).sentences_per_second,
    }


def print_table(models: list[dict]) -> None:
    """Print a row for each model."""
    print(f"BLEU: {models[0]['signature']}; exact match in % of the test sentences")
    row = "{:18} {:>6} {:>10} {:>6} {:>12} {:>11} {:>14} {:>18}".format
    columns = "BLEU", "ambiguous", "ties", "unambiguous", "parameters", "train words/s"
    print(row("model", *columns, "decode sentences/s"))
    for m in models:
        exact = (f"{100 * m[column]:.1f}" for column in KINDS)
        speeds = f"{m['train_words_per_second']:,.0f}", f"{m['generate_sentences_per_second']:.1f}"
        print(row(m["name"], f"{m['bleu']:.1f}", *exact, f"{m['parameters']:,}", *speeds))


def main() -> None:
    """Score all models, print the table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path, help="score the models in this folder of run.sh")
    parser.add_argument(
        "--models", type=Path, required=True, help="read the rows of the table from this file"
    )
    parser.add_argument("--json", type=Path, required=True, help="write all figures to this file")
    args = parser.parse_args()
    models = []
    for name, positions, attention in read_rows(args.models, columns=3):
        described = {"name": name, "encoder_positions": positions, "encoder_attention": attention}
        models.append({**described, **evaluate(args.work / name, args.work)})
    print_table(models)
    write_json(args.json, {"models": models}, indent=2)


if __name__ == "__main__":
    command_line.run(main)
