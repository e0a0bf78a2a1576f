"""Extract translations from fairseq-generate logs, in the order of the test set.

posattn translations DATA generate.log --out translations
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.atomic import written_together
from fairseq_posattn.io.command_line import run
from fairseq_posattn.lab.scoring.generate_log import check_set, outputs, read_logs, to_text
from fairseq_posattn.text import pipeline as text_pipeline
from fairseq_posattn.trees.projection import SEPARATOR


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = command_parser("posattn translations", __doc__)
    parser.add_argument(
        "data", help="data folder, which stores how subword units are joined into words"
    )
    parser.add_argument("logs", nargs="+", help="logs of fairseq-generate (all shards of one run)")
    parser.add_argument("--out", required=True, help="write one translation per line to this file")
    parser.add_argument(
        "--gen-subset",
        default="test",
        metavar="NAME",
        help="subset that was translated; its number of sentences is checked (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--sources", metavar="OUT", help="also write the segmented sources to this file"
    )
    parser.add_argument(
        "--separator",
        default=SEPARATOR,
        help="subword marker, @@ or \u2581, if the data folder does not define it (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--detokenize",
        metavar="LANG",
        help="detokenise with Moses for this language, unless the data folder defines a "
        "detokeniser",
    )
    return parser.parse_args(arguments)


def main() -> None:
    args = parse_arguments()
    if args.detokenize and text_pipeline.exists(args.data):
        raise InputError(
            f"{args.data}/{text_pipeline.FILE} defines the detokeniser; leave out --detokenize"
        )
    decode = to_text(args.data, args.separator, args.detokenize)
    logs = read_logs(args.logs)
    texts = [(args.sources, outputs(logs, "S"))] if args.sources else []
    translations = [decode(pieces) for pieces in outputs(logs)]
    check_set(logs, args.data, args.gen_subset, len(translations))
    texts.append((args.out, translations))  # last, because the files are renamed in this order
    with written_together([path for path, _ in texts]) as files:
        for file, (_, lines) in zip(files, texts, strict=True):
            file.writelines(f"{line}\n" for line in lines)


command = partial(run, main)
if __name__ == "__main__":
    command()
