"""Train a small stanza model directory with stanza's own trainers: no network, no word vectors.

    python tests/support/train_stanza.py TRAIN.conllu DEV.conllu --out DIR --lang en --size toy

DIR (tokenizer, tagger, identity lemmatiser and parser) then serves as a downloaded one would:

    stanza.Pipeline("en", dir=DIR, processors="tokenize,pos,lemma,depparse", download_method=None)

The tagger predicts UPOS alone. `--mwt` adds the expansion of multiword tokens (a dictionary), which
the same call loads by itself; without it a multiword token is a token like any other. The tokenizer
learns to split a line into sentences only from a treebank with `# newdoc` or `# newpar` lines.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import folder_written_whole
from fairseq_posattn.trees.conllu import read_blocks

ID, FORM, LEMMA, XPOS, FEATS = 0, 1, 2, 4, 5
TEXT = "# text = "
PARAGRAPH = ("# newdoc", "# newpar")
MODULES = {"tokenize": "tokenizer", "mwt": "mwt_expander", "pos": "tagger", "depparse": "parser"}
TAIL = 30  # lines shown of a trainer that failed


class Size(NamedTuple):
    """A size has the numbers of sentences to use at most, and the options of the trainers."""

    train: int
    dev: int
    tokenize: str
    network: str  # of tagger and parser; what follows it wins
    pos: str
    depparse: str


SIZES = {
    "toy": Size(
        train=300,
        dev=40,
        tokenize="--steps 60 --eval_steps 60 --batch_size 16 --hidden_dim 32 --lr0 1e-2",
        network="--hidden_dim 32 --word_emb_dim 16 --char_emb_dim 16 --char_hidden_dim 32"
        " --transformed_dim 16 --tag_emb_dim 16 --deep_biaff_hidden_dim 32"
        " --lr 1e-2 --dropout 0.2 --word_dropout 0.1",
        pos="--composite_deep_biaff_hidden_dim 16 --batch_size 32"
        " --max_steps 40 --eval_interval 40",
        depparse="--batch_size 400 --max_steps 60 --eval_interval 60 --no_second_optim",
    ),
    "small": Size(
        train=12000,
        dev=500,
        tokenize="--steps 1000 --eval_steps 500",
        network="--hidden_dim 192 --word_emb_dim 64 --char_emb_dim 32 --char_hidden_dim 64"
        " --transformed_dim 64 --tag_emb_dim 32 --deep_biaff_hidden_dim 64"
        " --lr 3e-3 --dropout 0.2 --word_dropout 0.1",
        pos="--hidden_dim 96 --composite_deep_biaff_hidden_dim 32 --batch_size 32"
        " --lr 4e-3 --dropout 0.1 --word_dropout 0.05 --max_steps 1800 --eval_interval 600",
        # a second optimizer, because nothing else lowers the learning rate at a given step
        depparse="--batch_size 750 --max_steps 2000 --eval_interval 400"
        " --second_optim adam --second_optim_start_step 1200 --second_lr 8e-4"
        " --second_warmup_steps 0",
    ),
}
FOR_BOTH = "--no_pretrain --word_cutoff 2 --num_layers 1"
FOR_TAGGER = "--fix_eval_interval"
FOR_PARSER = (  # its own choice, adadelta, wants long trainings
    "--no_xpos --no_ufeats --no_checkpoint --optim adam --beta2 0.95 --weight_decay 0 --no_plateau"
)


class Token(NamedTuple):
    form: str
    is_multiword: bool


class Corpus(NamedTuple):
    """The files that the trainers read, for one split."""

    conllu: Path
    text: Path
    labels: Path


def read_treebank(path: Path, at_most: int) -> list[list[str]]:
    """Return the lines of each sentence, of at most so many, from all over the treebank."""
    sentences = [block.lines for block in read_blocks(str(path))]
    sentences = [lines for lines in sentences if tokens_of(lines)]
    every = max(1, len(sentences) // at_most)  # spread out: treebanks are sorted by genre
    return sentences[::every][:at_most]


def tokens_of(lines: list[str]) -> list[Token]:
    """What is written: the multiword tokens, not their words."""
    tokens, covered = [], 0
    for line in lines:
        if line[0] == "#":
            continue
        columns = line.split("\t")
        first, _, last = columns[ID].partition("-")
        if "." in first or int(first) <= covered:  # an empty node, or a word of the last token
            continue
        covered = int(last or first)
        tokens.append(Token(columns[FORM], bool(last)))
    return tokens


def text_of(lines: list[str], tokens: list[Token]) -> str:
    given = (line.removeprefix(TEXT) for line in lines if line.startswith(TEXT))
    return next(given, " ".join(token.form for token in tokens))


def labels_of(text: str, tokens: list[Token], mwt: bool) -> str:
    """Label characters as stanza does: 1 ends a token, 3 a multiword token, 2 or 4 a sentence."""
    labels, end = [0] * len(text), 0
    for token in tokens:
        end = text.index(token.form, end) + len(token.form)
        labels[end - 1] = 3 if mwt and token.is_multiword else 1
    labels[end - 1] += 1
    return "".join(map(str, labels))


def paragraphs(sentences: list[list[str]]) -> Iterator[list[list[str]]]:
    """Sentences that follow each other in one text; each by itself where nothing tells."""
    starts = [any(line.startswith(PARAGRAPH) for line in lines) for lines in sentences]
    told, paragraph = any(starts), []
    for lines, starts_here in zip(sentences, starts, strict=True):
        if paragraph and (starts_here or not told):
            yield paragraph
            paragraph = []
        paragraph.append(lines)
    yield paragraph


def as_the_pipeline_has_it(line: str) -> str:
    """The word with its form as lemma, as the parser will get it, and without tags but UPOS."""
    if line[0] == "#":
        return line
    columns = line.split("\t")
    columns[LEMMA] = columns[FORM]
    columns[XPOS] = columns[FEATS] = "_"
    return "\t".join(columns)


def write_corpus(sentences: list[list[str]], start: Path, mwt: bool) -> Corpus:
    corpus = Corpus(*(start.with_suffix(f".{end}") for end in Corpus._fields))
    texts, labels = [], []
    for paragraph in paragraphs(sentences):
        tokens = [tokens_of(lines) for lines in paragraph]
        written = [text_of(*sentence) for sentence in zip(paragraph, tokens, strict=True)]
        texts.append(" ".join(written))
        labels.append("0".join(labels_of(*s, mwt) for s in zip(written, tokens, strict=True)))
    corpus.text.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    corpus.labels.write_text("\n\n".join(labels) + "\n", encoding="utf-8")
    with open(corpus.conllu, "w", encoding="utf-8") as file:
        for lines in sentences:
            file.writelines(f"{as_the_pipeline_has_it(line)}\n" for line in lines)
            file.write("\n")
    return corpus


def options_of_trainers(size: Size, train: Corpus, dev: Corpus, mwt: bool) -> dict[str, list]:
    """Return the options of each trainer, by processor."""
    no_expansions = train.text.with_name("expansions.json")  # asked for by an augmentation
    no_expansions.write_text("[]")
    treebanks = ["--train_file", train.conllu, "--eval_file", dev.conllu]
    tagged = [*treebanks, *FOR_BOTH.split(), *size.network.split()]
    options = {
        "tokenize": [
            *("--txt_file", train.text, "--label_file", train.labels),
            *("--dev_txt_file", dev.text, "--dev_label_file", dev.labels),
            *("--mwt_json_file", no_expansions, *size.tokenize.split()),
        ],
        "pos": [*tagged, *FOR_TAGGER.split(), *size.pos.split()],
        "depparse": [*tagged, *FOR_PARSER.split(), *size.depparse.split()],
    }
    if mwt:
        options["mwt"] = [*treebanks, "--gold_file", dev.conllu, "--dict_only"]
    return options


def train_one(processor: str, options: list, log: Path) -> None:
    """Run a trainer in a fork: it reseeds and sets up logging for all of its process."""
    module = f"stanza.models.{MODULES[processor]}"
    arguments = [module, "--mode", "train", "--cpu", "--seed", "1", *options]
    start = time.monotonic()
    trainer = multiprocessing.get_context("fork").Process(
        target=run_trainer, args=(list(map(str, arguments)), log)
    )
    trainer.start()
    trainer.join()
    if trainer.exitcode:
        tail = log.read_text(errors="replace").splitlines()[-TAIL:]
        sys.exit("\n".join([*tail, f"error: {module} ended with exit code {trainer.exitcode}"]))
    print(f"{processor}: {time.monotonic() - start:.0f} s", flush=True)


def run_trainer(arguments: list[str], log: Path) -> None:
    """Run a module of stanza with these arguments, whose output goes to a file."""
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.argv = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def resources(lang: str, name: str, processors: list[str]) -> dict:
    """What stanza looks up in resources.json: which models there are and which it takes."""
    chosen = {**dict.fromkeys(processors, name), "lemma": "identity"}
    models = {processor: {package: {}} for processor, package in chosen.items()}
    return {lang: {"lang_name": lang, **models, "packages": {"default": chosen}}}


def train_all(options: argparse.Namespace, out: Path, work: Path) -> None:
    size, name = SIZES[options.size], options.size
    train = write_corpus(read_treebank(options.train, size.train), work / "train", options.mwt)
    dev = write_corpus(read_treebank(options.dev, size.dev), work / "dev", options.mwt)
    trainers = options_of_trainers(size, train, dev, options.mwt)
    for processor, extra in trainers.items():
        place = ["--save_dir", out / options.lang / processor, "--save_name", f"{name}.pt"]
        language = ["--lang", options.lang, "--shorthand", f"{options.lang}_{name}"]
        train_one(processor, [*language, *place, *extra], work / f"{processor}.log")
    content = json.dumps(resources(options.lang, name, list(trainers)), indent=2)
    (out / "resources.json").write_text(content + "\n", encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path, help="CoNLL-U, plain, .gz or .xz")
    parser.add_argument("dev", type=Path, help="the same, to choose the best step")
    parser.add_argument("--out", type=Path, required=True, help="model directory to make")
    parser.add_argument("--lang", default="en", help="stanza's code (default: en)")
    parser.add_argument("--overwrite", action="store_true", help="replace DIR if it is there")
    parser.add_argument("--mwt", action="store_true", help="also expand multiword tokens")
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="toy",
        help="toy: half a minute, for the toy treebank (default); small: 12 minutes, for UD",
    )
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with (
        folder_written_whole(options.out, options.overwrite) as out,
        tempfile.TemporaryDirectory() as work,
    ):
        train_all(options, out, Path(work))


if __name__ == "__main__":
    command_line.run(main)
