"""Count how often each test of significance calls two equal systems different.

    python recipes/benchmark/false_alarms.py --run-sigma 0 0.2 0.4 --runs 1 3 5 --json alarms.json

Each trial draws translations of one test set by several runs of two systems. Every sentence has a
difficulty, which all runs share, every run an effect that all of its sentences share, and the rest
is noise. The systems are equal, unless --gain says by how much the second one is better. The score
is the mean over the sentences, and all numbers are in its points. A test is right if it answers
p < 0.05 in 5 % of the trials without a gain. With --preference equal systems are good at different
sentences, so that a new test set would show another difference.

With --like the three deviations are those of chrF2 in real translations by several runs of one
system, or of several systems, over which they are averaged:

    python recipes/benchmark/false_alarms.py --like raw/test.de runs/sequence.demo.seed*/test.hyp
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import CHRF
from scipy.stats import binomtest

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.argument_types import positive
from fairseq_posattn.io.files import read_lines, refuse_different_lengths
from fairseq_posattn.lab.scoring.metrics.runs import (
    Statistics,
    bootstrap,
    randomisation,
    welch,
)
from fairseq_posattn.lab.scoring.metrics.runs import scores as run_scores
from fairseq_posattn.lab.scoring.metrics.segment_scores import METRIC

LEVEL = 0.05
TESTS = ("bootstrap over sentences, first runs", "randomisation", "bootstrap", "Welch")


def drawn(options: argparse.Namespace, runs: int, sigma: float, dice) -> tuple[Statistics, ...]:
    """Return what the runs of both systems got for each sentence."""
    difficulty = dice.normal(30, options.difficulty, options.sentences)
    systems = []
    for gain in (0.0, options.gain):
        effect = dice.normal(0, sigma, (runs, 1))
        noise = dice.normal(0, options.noise, (runs, options.sentences))
        preference = dice.normal(0, options.preference / 2**0.5, options.sentences)
        numbers = difficulty + preference + effect + noise + gain
        systems.append(np.stack([numbers, np.ones_like(numbers)], axis=-1))
    return tuple(systems)


def alarms(options: argparse.Namespace, runs: int, sigma: float, dice) -> list[bool | None]:
    """Return for each test whether it calls two systems different, or None where it cannot be."""
    baseline, system = drawn(options, runs, sigma, dice)
    seed = int(dice.integers(2**31))
    samples = options.samples
    p_values = [
        bootstrap(METRIC, baseline[:1], system[:1], samples, seed).p(),
        randomisation(METRIC, baseline, system, samples, seed),
        bootstrap(METRIC, baseline, system, samples, seed).p(),
        welch(run_scores(METRIC, baseline), run_scores(METRIC, system)),
    ]
    return [None if p is None else p < LEVEL for p in p_values]


def rates(options: argparse.Namespace, runs: int, sigma: float) -> dict:
    """Return a row of the table: how often each test answered p < 0.05."""
    dice = np.random.default_rng(options.seed)
    found = [alarms(options, runs, sigma, dice) for _ in range(options.trials)]
    row: dict = {"runs": runs, "run_sigma": sigma, "preference": options.preference}
    row.update(gain=options.gain, trials=options.trials)
    for name, answers in zip(TESTS, zip(*found, strict=True), strict=True):
        row[name] = None if None in answers else sum(answers) / len(answers)
    return row


def shown(rate: float | None, trials: int) -> str:
    """Return a rate as text, with the 95 % interval of what is known of it after so many trials."""
    if rate is None:
        return "-"
    low, high = binomtest(round(rate * trials), trials).proportion_ci(method="wilson")
    return f"{rate:.1%} ({low:.1%} to {high:.1%})"


def deviations(numbers: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return estimates of the variances of the difficulty, of the runs and of the noise.

    numbers: of each run, the score of each sentence. This is the analysis of variance with two
    random factors; an estimate may be below 0.
    """
    runs, sentences = numbers.shape
    of_runs, of_sentences = numbers.mean(axis=1, keepdims=True), numbers.mean(axis=0)
    rest = numbers - of_runs - of_sentences + numbers.mean()
    noise = (rest**2).sum() / ((runs - 1) * (sentences - 1))
    difficulty = of_sentences.var(ddof=1) - noise / runs
    effect = of_runs.var(ddof=1) - noise / sentences
    return float(difficulty), float(effect), float(noise)


def read_numbers(paths: Sequence[str]) -> NDArray[np.float64]:
    """Return chrF2 of each sentence of each run; the first path is that of the reference."""
    reference, *runs = [list(read_lines(path)) for path in paths]
    if len(runs) < 2:
        raise InputError(f"--like {' '.join(paths)}: name a reference and two runs or more")
    refuse_different_lengths(dict(zip(paths, map(len, [reference, *runs]), strict=True)))
    metric = CHRF()

    def score(hypothesis: str, wanted: str) -> float:
        return metric.sentence_score(hypothesis, [wanted]).score

    return np.array([list(map(score, run, reference)) for run in runs])


def take_over(options: argparse.Namespace) -> None:
    """Set the deviations to those of real runs, and print them."""
    numbers = [read_numbers(paths) for paths in options.like]
    if len({table.shape[1] for table in numbers}) > 1:
        raise InputError("--like: the systems have different test sets; name those of one test set")
    variances = np.mean([deviations(table) for table in numbers], axis=0)
    means = np.sqrt(np.maximum(variances, 0)).tolist()
    options.difficulty, sigma, options.noise = means
    options.run_sigma, options.sentences = [0.0, sigma], numbers[0].shape[1]
    print(
        f"chrF2 of {sum(map(len, numbers))} runs of {len(numbers)} systems: difficulty "
        f"{options.difficulty:.2f}, runs {sigma:.3f}, noise {options.noise:.2f}"
    )


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--runs", type=positive, nargs="+", default=[3], help="draw so many runs of each system")
    add(
        "--run-sigma",
        type=float,
        nargs="+",
        default=[0.0, 0.3],
        help="let the effect of a run have these standard deviations",
    )
    add("--gain", type=float, default=0.0, help="make the second system better by this")
    add("--sentences", type=positive, default=1000, help="draw a test set of so many sentences")
    add("--difficulty", type=float, default=20.0, help="what the sentences differ by")
    add("--noise", type=float, default=12.0, help="what the outputs of a sentence differ by")
    add("--preference", type=float, default=0.0, help="what equal systems differ by on a sentence")
    add("--trials", type=positive, default=400, help="draw so many pairs of systems")
    add("--samples", type=positive, default=500, help="draw so many samples in each test")
    add("--seed", type=int, default=1, help="draw with this seed")
    add(
        "--like",
        nargs="+",
        action="append",
        metavar="FILE",
        help="take the deviations of chrF2 in these files: the reference, and translations by "
        "several runs of a system, in place of those of --run-sigma, --difficulty, --noise and "
        "--sentences; the option may be given for several systems",
    )
    add("--json", type=Path, help="write the table here, too")
    options = parser.parse_args()
    if options.like:
        take_over(options)
    rows = [rates(options, *pair) for pair in product(options.runs, options.run_sigma)]
    for row in rows:
        found = "; ".join(f"{name}: {shown(row[name], row['trials'])}" for name in TESTS)
        print(f"{row['runs']} runs, sigma {row['run_sigma']:g}: {found}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    command_line.run(main)
