"""The toy treebank: create its data, and measure BLEU and exact match by kind of sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.experiment import Experiment, Results
from fairseq_posattn.experiments.machine import Machine, Share
from fairseq_posattn.experiments.recipe import arguments
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.runs import Run
from fairseq_posattn.files.files import read_lines, same_number_of_lines
from fairseq_posattn.preparation.project import ProjectionRequest
from fairseq_posattn.preparation.segment import ApplyRequest, LearnRequest
from fairseq_posattn.preparation.treebanks import ExtractRequest
from fairseq_posattn.scoring import generate_log
from fairseq_posattn.scoring.tables import Cell, Table, mean_cell
from fairseq_posattn.scoring.training_log import TRAIN, read_training

AGAIN = "delete the work folder of the recipe and start recipes/toy/run.sh again"
UNAMBIGUOUS = "test1"  # the subset with the unambiguous test sentences
SPLITS = ("train", "dev", "test")
KINDS = {  # column -> the kinds of test sentences that it includes
    "ambiguous": ("ambiguous", "tie"),
    "of these ties": ("tie",),
    "unambiguous": ("unambiguous",),
}
MEANING = (
    "The test set contains each ambiguous sentence once with each of its trees. So a model that "
    "reads only the string (sequence) can translate at most half of them correctly, and one that "
    "also reads depths at most half of the ties; any gain of full tree over this comes from trees."
)
SPEEDS = ("train_words_per_second", "generate_sentences_per_second")


class Recipe(Experiment):
    """The toy recipe, which creates its treebank and runs each step of posattn prepare."""

    def corpora(self) -> list[str]:
        return ["treebank"]

    def data(self, corpus: str, seed: int) -> Path:
        return self.work / "data"

    def make_data(self, row: Row, seed: int) -> None:
        """Create the treebank, and binarise it."""
        data, inputs = self.data(row.size, seed), [self.folder / "treebank.py"]
        names = ("train", "valid", "test", UNAMBIGUOUS)
        outputs = [data / f"{split}.src-tgt.src.bin" for split in names]
        self.once("treebank", self.content.data, inputs, outputs, self.prepare_all)

    def prepare_all(self) -> None:
        work, raw, choices = self.work, self.raw, dict(self.content.data)
        symbols = choices.pop("symbols")
        self.make(self.folder / "treebank.py", raw, *arguments(choices))
        for split in SPLITS:
            treebank = str(raw / f"{split}.src.conllu")
            self.make(ExtractRequest(treebanks=[treebank], out=f"{work}/{split}"))
        texts, codes = [f"{work}/train.words", f"{raw}/train.tgt"], f"{work}/codes"
        self.make(LearnRequest(texts=texts, symbols=symbols, codes=codes))
        for split in SPLITS:
            words, parents = f"{work}/{split}.words", f"{work}/{split}.parents"
            for text, end in ((words, "src"), (f"{raw}/{split}.tgt", "tgt")):
                self.make(ApplyRequest(text=text, codes=codes, out=f"{work}/{split}.{end}"))
            self.make(ProjectionRequest(words, parents, f"{work}/{split}.src"))
        self.make(self.folder / "unambiguous.py", work / "test", raw / "test.kinds")
        prefixes = ("--trainpref", work / "train", "--validpref", work / "dev")
        self.make(
            "fairseq_posattn.cli.binarize",
            *("--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary", *prefixes),
            *("--testpref", f"{work / 'test'},{work / 'unambiguous'}"),
            *("--destdir", work / "data", "--overwrite"),
        )

    def test(self, run: Run, corpus: str, machine: Machine, share: Share) -> dict[str, Any]:
        """Translate the test set, and score the translations."""
        options = {
            "path": run.folder / "checkpoint_last.pt",
            "batch-size": 100,
            "beam": 4,
            "remove-bpe": True,
        }
        self.program("generate", options, run, machine, share, run.folder / "generate.log")
        found = self.shell.act(measured, run.folder, self.raw, instead={})
        if self.learns_parents(run):
            found |= self.attachment(run, machine, share)
        return found

    def learns_parents(self, run: Run) -> bool:
        """Return whether an attention head of the model is trained to attend to parents."""
        [row] = [row for row in self.content.models if row.name == run.record.name]
        return row.training.get("criterion") == "tree_supervised_cross_entropy"

    def attachment(self, run: Run, machine: Machine, share: Share) -> dict[str, Any]:
        """Return how often the trained head finds the parent in unambiguous sentences, in %.

        fairseq-validate compares the head with the trees, which the model does not read.
        """
        log = run.folder / "validate.log"
        options = {"path": run.folder / "checkpoint_last.pt", "valid-subset": UNAMBIGUOUS}
        self.program("validate", {**options, "max-tokens": 2000}, run, machine, share, log)
        return {"attachment": self.shell.act(attachment_in, log)}

    def tables(self, rows: Sequence[Row], results: Results, baseline: str) -> list[Table]:
        lines, signature = [], ""
        learnt = any("attachment" in run for runs in results.values() for run in runs)
        for row in rows:
            [runs] = [found for (model, _), found in results.items() if model == row.name]
            signature = runs[0]["signature"]
            cells: list[str | Cell] = [row.shown, mean_cell([run["bleu"] for run in runs], 1)]
            cells += [mean_cell([100 * run["exact"][kind] for run in runs], 1) for kind in KINDS]
            if learnt:
                found = [run["attachment"] for run in runs if "attachment" in run]
                cells.append(mean_cell(found, 1) if found else "")
            cells.append(mean_cell([runs[0]["parameters"]], 0))
            cells += [mean_cell([run[name] for run in runs], 0) for name in SPEEDS]
            lines.append(cells)
        parents = ["parents found"] if learnt else []
        speeds = ["training words/s", "decoded sentences/s"]
        head = ["model", "BLEU", *KINDS, *parents, "parameters", *speeds]
        return [
            Table(
                "Exact match in % of the test sentences",
                head,
                lines,
                [MEANING, f"BLEU: {signature}"],
            )
        ]


def attachment_in(log: Path) -> float:
    """Read the attachment accuracy, in %, from a log of fairseq-validate."""
    found = re.findall(r"\btree_attachment ([\d.]+)", log.read_text(encoding="utf-8"))
    if not found:
        raise InputError(f"{log} does not contain tree_attachment; {AGAIN}")
    return float(found[-1])


def measured(folder: Path, raw: Path) -> dict[str, Any]:
    """Return all results of one model."""
    from sacrebleu.metrics import BLEU  # not needed for a dry run

    same_number_of_lines([raw / "test.tgt", raw / "test.kinds"])
    references = list(read_lines(raw / "test.tgt"))
    translations = generate_log.outputs(generate_log.read_logs([folder / "generate.log"]))
    if len(translations) != len(references):
        raise InputError(
            f"{folder}/generate.log has {len(translations)} translations of {len(references)} "
            f"sentences; {AGAIN}"
        )
    bleu = BLEU(tokenize="none")  # the toy language is tokenised
    return {
        "bleu": bleu.corpus_score(translations, [references]).score,
        "signature": str(bleu.get_signature()),
        "exact": exact_matches(translations, references, read_kinds(raw / "test.kinds")),
        **speed_and_size(folder),
    }


def read_kinds(path: Path) -> list[str]:
    """Read the kinds of test sentences; raise an InputError if a column would be empty."""
    kinds = list(read_lines(path))
    for members in KINDS.values():
        if not set(members) & set(kinds):
            raise InputError(f"{path} has no sentence of kind {' or '.join(members)}; {AGAIN}")
    return kinds


def exact_matches(translations: list[str], references: list[str], kinds: list[str]) -> dict:
    """Return the share of exact matches for each column."""
    right = [t == r for t, r in zip(translations, references, strict=True)]
    shares = {}
    for column, members in KINDS.items():
        chosen = [r for r, kind in zip(right, kinds, strict=True) if kind in members]
        shares[column] = sum(chosen) / len(chosen)
    return shares


def speed_and_size(folder: Path) -> dict[str, Any]:
    """Return the number of parameters, and the speeds of training and translation."""
    log = folder / "train.log"
    training = read_training([str(log)])
    speeds = training.speeds(TRAIN)
    if not training.parameters or not speeds:
        raise InputError(f"{log} does not contain the model's size and speed; {AGAIN}")
    translated = generate_log.translated(str(folder / "generate.log"))
    return {
        "parameters": training.parameters,
        "train_words_per_second": speeds[-1],
        "generate_sentences_per_second": translated.sentences_per_second,
    }
