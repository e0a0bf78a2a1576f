r"""Train stanza models (for --model-dir) on a treebank of any language, with stanza's trainers.

    posattn train-parser UD_Coptic-Scriptorium --lang cop --out models
    posattn parse text.cop --lang cop --model-dir models --out text.conllu

You can interrupt the command at any time; run it again to resume.
"""

import argparse
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, new_folder
from fairseq_posattn.io.command_line import run
from fairseq_posattn.text.parsing.trainers import SIZES, SMALL
from fairseq_posattn.text.parsing.training import train_parser
from fairseq_posattn.text.parsing.treebank import files_of

NAMES = {
    "upos": "UPOS",
    "uas": "UAS",
    "las": "LAS",
    "token_f1": "F1 of tokens",
    "word_f1": "F1 of words",
}


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn train-parser", __doc__)
    add = parser.add_argument
    add(
        "treebank",
        metavar="TREEBANK",
        nargs="?",
        type=Path,
        help="folder of a Universal Dependencies treebank, with *-ud-train.conllu and "
        "*-ud-dev.conllu (may be .gz, .xz or .zst)",
    )
    add(
        "--train",
        metavar="CONLLU",
        type=Path,
        help="training file, instead of TREEBANK; requires --dev",
    )
    add(
        "--dev",
        metavar="CONLLU",
        type=Path,
        help="development file, used to select the best checkpoint; requires --train",
    )
    add(
        "--lang",
        required=True,
        help="language code, also for posattn parse --lang; stanza need not support this language",
    )
    add("--out", required=True, type=new_folder, help="write the models to this folder")
    add(
        "--size",
        choices=list(SIZES),
        default=SMALL.name,
        help="size of the models and length of training: tiny (for a first try, 5 minutes on one "
        "core), small (default, 15 minutes on one core) or full (stanza's settings, for a GPU)",
    )
    add(
        "--no-tokenizer",
        action="store_true",
        help="do not train a tokeniser; the parser then requires tokenised text",
    )
    add("--work", type=new_folder, help="folder for intermediate files (default: OUT.work)")
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")
    return parser.parse_args()


def files_named(options: argparse.Namespace) -> tuple[Path, Path]:
    """Return the paths of the training and dev files; raise an InputError if options conflict."""
    if options.treebank and not (options.train or options.dev):
        return files_of(options.treebank)
    if options.treebank or not (options.train and options.dev):
        raise InputError("give either TREEBANK, or both --train and --dev")
    return options.train, options.dev


def main() -> None:
    options = parse_options()
    scores = train_parser(
        *files_named(options),
        options.lang,
        options.out,
        SIZES[options.size],
        tokenizer=not options.no_tokenizer,
        cpu=options.cpu,
        work=options.work,
    )
    found = ", ".join(f"{NAMES[name]} {score:.2f}" for name, score in scores.items())
    print(f"{options.out}: on dev, {found}")


def command() -> None:
    run(main)


if __name__ == "__main__":
    command()
