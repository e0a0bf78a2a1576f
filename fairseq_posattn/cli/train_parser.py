r"""Train a parser for --model-dir from a treebank of any language, with stanza's own trainers.

    posattn train-parser UD_Coptic-Scriptorium --lang cop --out models
    posattn parse text.cop --lang cop --model-dir models --out text.conllu

If the command is killed, run it again, and it goes on where it was.
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
    """Read the options of the command line."""
    parser = command_parser("posattn train-parser", __doc__)
    add = parser.add_argument
    add(
        "treebank",
        metavar="TREEBANK",
        nargs="?",
        type=Path,
        help="learn from this folder of Universal Dependencies, with *-ud-train.conllu and "
        "*-ud-dev.conllu, which may end in .gz, .xz or .zst",
    )
    add("--train", metavar="CONLLU", type=Path, help="instead of a folder: learn from this file")
    add(
        "--dev",
        metavar="CONLLU",
        type=Path,
        help="instead of a folder: choose the best steps by this file, and score on it",
    )
    add(
        "--lang",
        required=True,
        help="call the language so, in --lang of posattn parse, too; stanza need not know it",
    )
    add("--out", required=True, type=new_folder, help="make this folder of models")
    add(
        "--size",
        choices=list(SIZES),
        default=SMALL.name,
        help="tiny: for a first try, five minutes on one core; small: a quarter of "
        "an hour on one core (default); full: as large and as long as stanza trains, for a GPU",
    )
    add(
        "--no-tokenizer",
        action="store_true",
        help="train no tokeniser, for text that is tokenised already",
    )
    add("--work", type=new_folder, help="keep the files between the steps here (default: OUT.work)")
    add("--cpu", action="store_true", help="use the CPU even where there is a GPU")
    return parser.parse_args()


def files_named(options: argparse.Namespace) -> tuple[Path, Path]:
    """Return the files of the treebank, or refuse options that contradict each other."""
    if options.treebank and not (options.train or options.dev):
        return files_of(options.treebank)
    if options.treebank or not (options.train and options.dev):
        raise InputError("name a folder TREEBANK, or two files, with --train and --dev")
    return options.train, options.dev


def main() -> None:
    """Train the parser that the command line names."""
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
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
