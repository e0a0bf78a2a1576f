"""Train a tokeniser, a tagger and a parser on a treebank, with stanza's own trainers.

OUT.work contains completed models and the trainers' logs. OUT contains the models in stanza's
folder layout, and a record of their training.
"""

import io
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import folder_written_whole, full_disk_named, is_used
from fairseq_posattn.files.files import fingerprint, read_json, write_json
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import one_of, option
from fairseq_posattn.files.requests import new_folder
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.step_records import StepRecord, Steps, completed_record
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.stanza_parser import StanzaParser, import_stanza
from fairseq_posattn.text.parsing.trainers import SIZES, SMALL, Size, options_of, run_trainer
from fairseq_posattn.text.parsing.treebank import Corpus, Tree, files_of, read_trees, spread
from fairseq_posattn.trees.conllu import block
from fairseq_posattn.trees.sentence import Sentence

RECORD = "trained.json"
KINDS = (STANZA, LOCAL) = ("stanza", "local")
LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# our names of the scores, and those of the CoNLL 2018 scorer
TREES = {"upos": "UPOS", "uas": "UAS", "las": "LAS"}
TEXT = {"token_f1": "Tokens", "word_f1": "Words"}
NAMES = {"tokenize": "tokeniser", "mwt": "multiword tokens", "pos": "tagger", "depparse": "parser"}


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """The options of posattn train-parser."""

    command: ClassVar = "posattn train-parser"
    treebank: Path | None = option(
        "folder of a Universal Dependencies treebank, with *-ud-train.conllu and *-ud-dev.conllu "
        "(may be .gz, .xz or .zst)",
        None,
        positional=True,
        metavar="TREEBANK",
    )
    train: Path | None = option(
        "training file, instead of TREEBANK; requires --dev", None, metavar="CONLLU"
    )
    dev: Path | None = option(
        "development file, used to select the best checkpoint; requires --train",
        None,
        metavar="CONLLU",
    )
    lang: str = option(
        "language code, also for posattn parse --lang; stanza need not support this language",
        required=True,
    )
    out: Path = option("write the models to this folder", required=True, type=new_folder)
    size: str = option(
        "size of the models and length of training: tiny (for a first try, 5 minutes on one core), "
        "small (default, 15 minutes on one core) or full (stanza's settings, for a GPU)",
        SMALL.name,
        one_of(*SIZES),
    )
    no_tokenizer: bool = option(
        "do not train a tokeniser; the parser then requires tokenised text", False
    )
    kind: str = option(
        "train stanza's models (stanza, the default), or a small parser for tokenised text that "
        "sees only neighbouring words, neither depth nor position (local)",
        STANZA,
        one_of(*KINDS),
    )
    work: Path | None = option(
        "folder for intermediate files (default: OUT.work)", None, type=new_folder
    )
    cpu: bool = option("use the CPU even if there is a GPU", False)

    def files(self) -> tuple[Path, Path]:
        """Return the training and development files; raise an InputError if options conflict."""
        if self.treebank and not (self.train or self.dev):
            return files_of(self.treebank)
        if self.treebank or not (self.train and self.dev):
            raise InputError("give either TREEBANK, or both --train and --dev")
        return self.train, self.dev


def train_parser(request: TrainingRequest) -> dict[str, float]:
    """Train all models, write them to the folder `out`, and return the scores on dev.

    After an interruption, the same call resumes training; kind "local" starts again.
    """
    train, dev = request.files()
    out, lang, size = request.out, request.lang, SIZES[request.size]
    tokenizer = not request.no_tokenizer
    stanza = import_stanza()
    if not LANGUAGE.fullmatch(lang):
        raise InputError(f"--lang {lang} is not a language code; use a code such as cop")
    with locked(out):
        files = [fingerprint(train), fingerprint(dev)]
        key = {"files": files, "lang": lang, "size": asdict(size), "tokenizer": tokenizer}
        if request.kind == LOCAL:
            key = {"files": files, "kind": LOCAL, "size": size.name}
        if before := completed_record(out / RECORD, key, models_in(out)):
            say(f"{out}: the models have already been trained")
            return before.answer["scores"]
        if is_used(out):
            raise InputError(
                f"{out}: the folder contains files, but no parser trained on this treebank with "
                "these options; choose another folder, or remove this one"
            )
        work = request.work or Path(f"{out}.work")
        models = work / "models"
        with full_disk_named(work):
            if request.kind == LOCAL:
                scores = train_local(train, dev, models, size.name)
            else:
                scores = Training(train, dev, lang, size, tokenizer, request.cpu, work).scores()
        with folder_written_whole(out, lock=False) as folder:
            shutil.copytree(models, folder, dirs_exist_ok=True)
            outputs = [fingerprint(path) for path in models_in(folder)]
            about = {"scores": scores, "stanza": stanza.__version__}
            StepRecord(key, outputs, about).write(folder / RECORD)
    return scores


def train_local(train: Path, dev: Path, folder: Path, size: str) -> dict[str, float]:
    """Train a local parser, store it in the folder, and return its scores on dev."""
    # these modules import torch
    from fairseq_posattn.text.parsing import local_parser, local_training

    folder.mkdir(parents=True, exist_ok=True)
    trees = [tree.sentence for tree in read_trees(train)]
    local_training.train_local(trees, folder, local_training.UPDATES[size])
    parser = local_parser.LocalParser(ParserSettings(LOCAL, model_dir=str(folder)))
    return scores_of(parser, read_trees(dev), raw=False)


def models_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECORD)


class Training:
    """Trains the models one after the other in a work folder."""

    def __init__(
        self, train: Path, dev: Path, lang: str, size: Size, tokenizer: bool, cpu: bool, work: Path
    ):
        self.given, self.lang, self.size, self.work = [train, dev], lang, size, work
        self.models = work / "models"
        self.corpora = [Corpus.of(work / "train"), Corpus.of(work / "dev")]
        self.trees = [read_trees(train), read_trees(dev)]
        self.tokenizer = tokenizer
        self.cpu = ["--cpu"] * cpu
        self.mwt = tokenizer and any(tree.sentence.multiword for tree in self.trees[0])
        self.processors = [*["tokenize"] * tokenizer, *["mwt"] * self.mwt, "pos", "depparse"]
        self.steps = Steps(work)

    def scores(self) -> dict[str, float]:
        """Train all remaining models, and return the scores on dev."""
        files = [file for corpus in self.corpora for file in corpus]
        choices = [self.size.train, self.size.dev, self.mwt]
        self.steps.do("treebank", choices, self.given, files, self.write_corpora)
        for processor in self.processors:
            self.train(processor, files)
        write_json(self.models / "resources.json", self.resources(), indent=2)
        scores = self.work / "scores.json"
        inputs = [*models_in(self.models), self.given[1]]
        self.steps.do("scores", [], inputs, [scores], partial(self.evaluate, scores))
        return read_json(scores, "remove it")

    def write_corpora(self) -> None:
        sizes = [self.size.train, self.size.dev]
        for corpus, trees, at_most in zip(self.corpora, self.trees, sizes, strict=True):
            corpus.write(spread(trees, at_most), self.mwt)

    def train(self, processor: str, files: list[Path]) -> None:
        """Train a model, or resume its training."""
        name, package = NAMES[processor], self.size.name
        model = self.models / self.lang / processor / f"{package}.pt"
        checkpoint = self.work.absolute() / "parser.checkpoint.pt"
        options = ["--mode", "train", "--seed", "1", "--lang", self.lang, *self.cpu]
        options += ["--shorthand", f"{self.lang}_{package}"]
        options += ["--save_dir", str(model.parent), "--save_name", model.name]
        if processor == "depparse":  # the only trainer that writes checkpoints
            options += ["--checkpoint_save_name", str(checkpoint)]
        options += options_of(processor, self.size, *self.corpora)

        def action() -> None:
            place = f"{name} ({self.processors.index(processor) + 1} of {len(self.processors)})"
            run_trainer(processor, options, self.work / f"{name.replace(' ', '-')}.log", place)
            checkpoint.unlink(missing_ok=True)

        def forget() -> None:
            checkpoint.unlink(missing_ok=True)

        choices = [self.lang, package, self.size.of(processor)]
        self.steps.do(name, choices, files, [model], action, forget)

    def resources(self) -> dict:
        chosen = {**dict.fromkeys(self.processors, self.size.name), "lemma": "identity"}
        models: dict = {processor: {package: {}} for processor, package in chosen.items()}
        packages = {"default": chosen}
        return {self.lang: {"lang_name": self.lang, **models, "packages": packages}}

    def evaluate(self, path: Path) -> None:
        settings = ParserSettings(
            lang=self.lang, model_dir=str(self.models), tokenized=not self.tokenizer
        )
        write_json(path, scores_of(StanzaParser(settings), self.trees[1], self.tokenizer))


def scores_of(parser: StanzaParser, trees: Sequence[Tree], raw: bool) -> dict[str, float]:
    """Return UPOS, UAS and LAS on gold words in percent and, if `raw`, the tokeniser's F1 scores.

    raw: whether to evaluate the parser's tokeniser on the text of each sentence.
    """
    gold = [tree.sentence for tree in trees]
    scores = chosen(TREES, gold, parser.parse_words(gold))
    if raw:
        scores |= chosen(TEXT, gold, parser.parse([tree.text for tree in trees]))
    return scores


def chosen(
    names: dict[str, str], gold: Sequence[Sentence], found: Sequence[Sentence]
) -> dict[str, float]:
    from udtools import udeval  # a dependency of stanza

    def read(sentences: Sequence[Sentence]) -> Any:
        text = "".join(block("", one, number) for number, one in enumerate(sentences, 1))
        return udeval.load_conllu(io.StringIO(text), "", {})

    evaluation = udeval.evaluate(read(gold), read(found))
    return {name: round(100 * evaluation[key].f1, 2) for name, key in names.items()}
