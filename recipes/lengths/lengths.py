"""Print BLEU by source length for the translations in a work folder.

    python recipes/lengths/lengths.py recipes/lengths/work

Lengths are counted in pieces, without `</s>`. The models were trained on sources of at most 12
pieces. Intervals are those of posattn score.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.scoring.metrics.runs import Samples, counted_by, interval, run_scores
from fairseq_posattn.scoring.tables import Table, markdown

HERE = Path(__file__).parent
BINS = ((1, 12), (13, 16), (17, 22), (23, 1000))
TESTS = {"test_2016_flickr": "test", "joined": "test1"}  # names in the data folder


def rows(work: Path) -> list[list[str]]:
    """Return a row for each run with translations of both test sets."""
    recipe = read_recipe(str(HERE))
    found = []
    for row in recipe.content.models:
        runs = sorted((work / "runs").glob(f"{row.title}.{row.size}.seed*"))
        for run in runs:
            if all((run / f"{test}.hyp").exists() for test in TESTS):
                found.append([f"`{row.title}`", *cells(work, run)])
    return found


def cells(work: Path, run: Path) -> list[str]:
    """Return BLEU by source length, and BLEU and length ratio of the concatenated captions."""
    test = "test_2016_flickr"
    hypotheses, references, lengths = texts(work, run, test)
    written = []
    for first, last in BINS:
        inside = [k for k, length in enumerate(lengths) if first <= length <= last]
        written.append(bleu([hypotheses[k] for k in inside], [references[k] for k in inside]))
    hypotheses, references, _ = texts(work, run, "joined")
    words = [sum(len(line.split()) for line in side) for side in (hypotheses, references)]
    return [*written, bleu(hypotheses, references), f"{words[0] / words[1]:.2f}"]


def texts(work: Path, run: Path, test: str) -> tuple[list[str], list[str], list[int]]:
    """Return translations, references and source lengths of a test set."""
    pieces = work / f"data.work/{TESTS[test]}.pieces.en"
    lengths = [len(line.split()) for line in read_lines(pieces)]
    return list(read_lines(run / f"{test}.hyp")), list(read_lines(work / f"raw/{test}.de")), lengths


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> str:
    """Format BLEU ± half of its 95 % interval."""
    if not hypotheses:
        return ""
    metric = BLEU(references=[references])
    counted = counted_by(metric, [hypotheses])
    low, high = interval(metric, counted, Samples())
    return f"{run_scores(metric, counted)[0]:.1f} ± {(high - low) / 2:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="work folder of the recipe")
    args = parser.parse_args()
    names = [f"{a} to {b}" if b < 1000 else f"{a} and more" for a, b in BINS]
    head = ["Positions", *names, "two captions", "their length to the reference"]
    print(*markdown([Table("", head, rows(args.work))]), sep="\n")


if __name__ == "__main__":
    command_line.run(main)
