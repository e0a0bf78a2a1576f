"""Scores the models of the toy recipe: BLEU, and exact match by kind of sentence.

python recipes/toy/evaluate.py WORK --models recipes/toy/models.tsv --json toy.json
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from sacrebleu.metrics import BLEU

KINDS = {  # column -> the kinds of test sentences in it
    "ambiguous_exact": ("ambiguous", "tie"),
    "tie_exact": ("tie",),
    "unambiguous_exact": ("unambiguous",),
}


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def evaluate(folder: Path, work: Path) -> dict:
    """All figures of one model."""
    references, kinds = read_lines(work / "raw/test.tgt"), read_lines(work / "raw/test.kinds")
    generated = (folder / "generate.log").read_text(encoding="utf-8")
    found = {int(n): text for n, text in re.findall(r"^H-(\d+)\t\S+\t(.*)$", generated, re.M)}
    translations = [found[k] for k in range(len(references))]
    bleu = BLEU(tokenize="none")  # the toy language is tokenised
    return {
        "bleu": bleu.corpus_score(translations, [references]).score,
        "signature": str(bleu.get_signature()),
        **exact_matches(translations, references, kinds),
        **speed_and_size(folder, generated),
    }


def exact_matches(translations: list[str], references: list[str], kinds: list[str]) -> dict:
    """The share of sentences translated exactly, in each column."""
    right = [t == r for t, r in zip(translations, references, strict=True)]
    shares = {}
    for column, members in KINDS.items():
        chosen = [r for r, kind in zip(right, kinds, strict=True) if kind in members]
        shares[column] = sum(chosen) / len(chosen)
    return shares


def speed_and_size(folder: Path, generated: str) -> dict:
    training = (folder / "train.log").read_text(encoding="utf-8")
    parameters = re.search(r"num\. shared model params: ([\d,]+)", training)[1]
    wps = [float(speed) for speed in re.findall(r'"train_wps": "([\d.]+)"', training)]
    return {
        "parameters": int(parameters.replace(",", "")),
        "train_words_per_second": wps[-1],
        "generate_sentences_per_second": float(re.search(r"([\d.]+) sentences/s", generated)[1]),
    }


def print_table(models: list[dict]) -> None:
    print(f"BLEU: {models[0]['signature']}; exact match in % of the test sentences")
    row = "{:18} {:>6} {:>10} {:>6} {:>12} {:>11} {:>14} {:>18}".format
    columns = "BLEU", "ambiguous", "ties", "unambiguous", "parameters", "train words/s"
    print(row("model", *columns, "decode sentences/s"))
    for m in models:
        exact = (f"{100 * m[column]:.1f}" for column in KINDS)
        speeds = f"{m['train_words_per_second']:,.0f}", f"{m['generate_sentences_per_second']:.1f}"
        print(row(m["name"], f"{m['bleu']:.1f}", *exact, f"{m['parameters']:,}", *speeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    models = []
    for line in read_lines(args.models):
        name, positions, attention = line.split("\t")
        described = {"name": name, "encoder_positions": positions, "encoder_attention": attention}
        models.append({**described, **evaluate(args.work / name, args.work)})
    print_table(models)
    args.json.write_text(json.dumps({"models": models}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
