"""Experiments of the recipes on small corpora: their files, their options, and how they are run."""

import contextlib
import io
import json
import lzma
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from fairseq_posattn.cli import recipe as recipe_command
from fairseq_posattn.files import command_line
from support import warm
from support.commands import ROOT, run
from support.files import lines_of, write

RECIPES = {  # what a test set is called, beside train: validation first
    "multi30k_en_de": ("val", "test_2016_flickr"),
    "nist_zh_en": ("mt02", "mt03", "mt04", "mt05", "mt06"),
    "wat17_ja_en": ("dev", "test"),
    "wmt14_en_de": ("newstest2013", "newstest2014"),
    "wmt17_zh_en": ("newsdev2017", "newstest2017"),
}

PREPARING = ("--parser", "conllu", "--tokenize", "spaces", "--symbols", 90, "--min-frequency", 5)

TINY = [
    *("--encoder-layers", 3, "--decoder-layers", 1, "--num-workers", 0),
    *("--encoder-embed-dim", 32, "--decoder-embed-dim", 32),
    *("--encoder-ffn-embed-dim", 64, "--decoder-ffn-embed-dim", 64),
    *("--encoder-attention-heads", 4, "--decoder-attention-heads", 4, "--max-tokens", 1000),
    *("--save-interval-updates", 1, "--update-freq", 1, "--warmup-updates", 4, "--lr", 5e-3),
]


def languages(recipe: str) -> list[str]:
    return recipe.split("_")[1:]


def tidy(corpus, name: str) -> tuple[list[str], list[str]]:
    """Sources and targets; of the small sets, all tests are the same."""
    split = {"train": "train"}.get(name, "valid" if name in VALID else "test")
    return tuple(lines_of(corpus.folder / f"tidy/{split}.{side}") for side in ("de", "en"))


VALID = [names[0] for names in RECIPES.values()]


def write_corpus(corpus, recipe: str, folder: Path) -> None:
    """What `prepare --from` takes; some of it packed."""
    folder.mkdir(parents=True)
    source, target = languages(recipe)
    for name in ("train", *RECIPES[recipe]):
        texts = tidy(corpus, name)
        if recipe == "wat17_ja_en":
            write_aspec(folder, name, *texts)
        elif recipe == "nist_zh_en" and name != "train":
            write_sgm(folder, name, *texts)
        else:
            write(folder / f"{name}.{source}", texts[0])
            packed = "".join(f"{line}\n" for line in texts[1]).encode()
            (folder / f"{name}.{target}.xz").write_bytes(lzma.compress(packed))


def write_aspec(folder: Path, name: str, source: list[str], target: list[str]) -> None:
    """train-1.txt and train-2.txt with a score before the columns, dev.txt and test.txt."""
    (folder / name).mkdir()
    score = "0.9 ||| " if name == "train" else ""
    rows = [
        f"{score}A-{k} ||| 1 ||| {s} ||| {t}"
        for k, (s, t) in enumerate(zip(source, target, strict=True))
    ]
    if name == "train":
        write(folder / "train/train-1.txt", rows[: len(rows) // 2])
        write(folder / "train/train-2.txt", rows[len(rows) // 2 :])
    else:
        write(folder / f"{name}/{name}.txt", rows)


def write_sgm(folder: Path, name: str, source: list[str], target: list[str]) -> None:
    """A source, and four references, of which the last three know fewer and fewer words."""
    sets = {"src": [("srcset", "", source)], "ref": []}
    for k in range(4):
        known = [" ".join(line.split()[: len(line.split()) - k] or ["so"]) for line in target]
        sets["ref"].append(("refset", f' sysid="E0{k + 1}"', known))
    for kind, documents in sets.items():
        rows = []
        for tag, system, lines in documents:
            rows.append(f'<{tag} setid="{name}" srclang="Chinese" trglang="English">')
            rows.append(f'<DOC docid="D1"{system}>')
            rows += [f"<seg id={n}> {escape(line)} </seg>" for n, line in enumerate(lines, 1)]
            rows.append(f"</DOC></{tag}>")
        write(folder / f"{name}.{kind}.sgm", rows)


def in_process(*words) -> tuple[int, str, str]:
    """Run `posattn recipe WORDS` in this process; return its exit code, output and messages."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["posattn recipe", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        command_line.run(recipe_command.main)
    return end.value.code or 0, out.getvalue(), err.getvalue()


class Experiment(NamedTuple):
    recipe: str
    work: Path

    def command(self, script: str, *arguments) -> list:
        cut = arguments.index("--") if "--" in arguments else len(arguments)
        program = ROOT / f"recipes/{script}.sh"
        return [program, self.recipe, *arguments[:cut], "--work", self.work, *arguments[cut:]]

    def start(self, script: str, *arguments, **kwargs):
        env = {**warm.variables(), **kwargs.pop("env", {})}
        return run(*self.command(script, *arguments), env=env, **kwargs)

    def runs(self, name: str) -> list[Path]:
        """Return the folders of all runs of a model, the oldest first."""
        found = (self.work / "runs").glob(f"{name}.seed*")
        return sorted(found, key=lambda folder: (folder / "run.json").stat().st_mtime)

    def result(self, system: str, test: str) -> dict:
        """Return the scores of a model, alone or against a baseline."""
        found = (self.work / "results").glob(f"{system}.{test}.*.json")
        return json.loads(sorted(found)[0].read_text())

    def contents(self) -> dict[str, bytes]:
        """Return what all models and results are made of."""
        files = [*self.work.glob("runs/*/*.pt"), *self.work.glob("results/*.json")]
        files += [*self.work.glob("table.*"), *self.work.glob("runs/*/*.hyp")]
        return {str(path): path.read_bytes() for path in files}


def prepared(corpus, recipe: str, folder: Path, *preparing) -> Experiment:
    """Trees made elsewhere lie where the recipe collects the text: a parser takes long to start."""
    experiment = Experiment(recipe, folder / "work")
    write_corpus(corpus, recipe, folder / "from")
    (folder / "work/raw").mkdir(parents=True)
    for name in ("train", *RECIPES[recipe]):
        split = "train" if name == "train" else "valid" if name in VALID else "test"
        trees = (corpus.folder / f"tidy/{split}.conllu").read_text()
        (folder / f"work/raw/{name}.conllu").write_text(trees)
    experiment.start(
        "prepare", "--from", folder / "from", "--any-size", "--", *(preparing or PREPARING)
    )
    return experiment


def copy_of(small: Experiment, folder: Path) -> Experiment:
    """Return the experiment in another folder, with links to its data and nothing trained."""
    work = folder / "work"
    work.mkdir()
    for path in (small.work / "raw", *small.work.glob("data*")):
        (work / path.name).symlink_to(path)
    return Experiment(small.recipe, work)
