"""Language models on PTB or WikiText-2: create the data, and compare with published perplexities.

`prepare.sh lm --from DIR` needs a folder with ptb.{train,valid,test}.txt or
wiki.{train,valid,test}.tokens, plain or compressed. Options of prepare.py, such as
--words N for a trial with about N words of training data, may follow --.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import PACKED
from fairseq_posattn.experiments.experiment import Experiment, Results
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.runs import Run
from fairseq_posattn.files.files import read_json
from fairseq_posattn.scoring.tables import NONE, Cell, Table, mean_cell

FILES = {"ptb": "ptb.{}.txt", "wikitext-2": "wiki.{}.tokens"}
SPLITS = ("train", "valid", "test")
WITHOUT_ATTENTION = "lstm"


class Recipe(Experiment):
    """The recipe of the language models, with the corpora PTB and WikiText-2 or parts of them."""

    def text(self, corpus: str) -> Path:
        """Return the folder with the sentences of a corpus."""
        return self.work / "text" / corpus

    def data(self, corpus: str, seed: int) -> Path:
        """Return the data folder of a corpus."""
        return self.work / "data" / corpus

    def choices_of_test(self) -> list[Any]:
        return [self.settings.examples]

    def prepare(self, source: Path | None, any_size: bool, rest: Sequence[str]) -> None:
        """Split the corpus in `source` into sentences, and binarise it."""
        folder = self.given(source)
        parser = argparse.ArgumentParser(f"prepare.sh {self.name} --", allow_abbrev=False)
        parser.add_argument("--words", type=int)
        options, _ = parser.parse_known_args(rest)
        corpus = corpus_in(folder)
        name = f"{corpus}.{options.words}_words" if options.words else corpus
        text, data = self.text(name), self.data(name, 0)
        files = [path for split in SPLITS for path in files_of(folder, corpus, split)]
        prefixes = [word for s in SPLITS for word in (f"--{s}pref", text / f"{s}.txt")]
        rare = ("--thresholdsrc", "3") if options.words else ()  # so that some words are unknown

        def make() -> None:
            program = self.folder / "prepare.py"
            self.make(program, "--corpus", corpus, "--data", folder, "--out", text, *rest)
            self.preprocess(data, "--only-source", *prefixes, "--padding-factor", "1", *rare)

        programs = [self.folder / f"{name}.py" for name in ("prepare", "sentences", "counting")]
        outputs = [data / "dict.txt", data / "test.bin", text / "counts.json"]
        self.once(name, list(rest), [*files, *programs], outputs, make)

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Compute the perplexities, and draw the attention of the first sentences."""
        path, data = run.folder / "checkpoint_best.pt", self.data(corpus, run.record.seed)
        out, cpu = run.folder / "perplexity.json", ["--cpu"] if machine.cpu else []
        counts = ("--counts", self.text(corpus) / "counts.json")
        both = ("--split", "valid", "test", "--json", out)
        program = self.folder / "perplexity.py"
        self.command(run, share, program, data, "--path", path, *counts, *both, *cpu)
        if run.record.name != WITHOUT_ATTENTION and self.settings.examples:
            maps = ("--split", "test", "--first", str(self.settings.examples))
            maps += ("--out", run.folder / "maps")
            program = self.folder / "attention_maps.py"
            self.command(run, share, program, data, "--path", path, *maps, *cpu)
        return self.shell.act(read_json, out, "delete it", instead={})

    def tables(self, rows: Sequence[Row], results: Results, baseline: str) -> list[Table]:
        return [table(rows, results, corpus) for corpus in sorted({c for _, c in results})]


def corpus_in(folder: Path) -> str:
    """Return the name of a folder's corpus; raise an InputError unless there is exactly one."""
    found = [name for name in FILES if files_of(folder, name, "train")]
    if len(found) != 1:
        names = " or ".join(pattern.format("train") for pattern in FILES.values())
        raise InputError(
            f"{folder}: expected either {names} (or .xz, .gz, .zst), found {len(found)} of them; "
            "give the folder of one corpus"
        )
    return found[0]


def files_of(folder: Path, corpus: str, split: str) -> list[Path]:
    """Return the existing files of a split, plain or compressed."""
    paths = (folder / f"{FILES[corpus].format(split)}{end}" for end in PACKED)
    return [path for path in paths if path.exists()]


def table(rows: Sequence[Row], results: Results, corpus: str) -> Table:
    """Return the table of perplexities on a corpus; parts of a corpus have no published ones."""
    head = ["model", "parameters", "published"]
    for split in SPLITS[1:]:
        head += [f"{split}, per word", "as published", "published"]
    lines = []
    for row in rows:
        runs, known = results[row.name, corpus], row.published.get(corpus, {})
        millions = f"{known['parameters']:g} M" if known else NONE
        cells: list[str | Cell] = [mean_cell([runs[0]["parameters"]], 0), millions]
        for split in SPLITS[1:]:
            for name in ("per_word", "as_published"):
                cells.append(mean_cell([run[split][name] for run in runs]))
            cells.append(f"{known[split]:.2f}" if known else NONE)
        lines.append([row.shown, *cells])
    return Table(f"Perplexity on {corpus}", head, lines)
