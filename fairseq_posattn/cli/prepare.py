r"""Raw parallel text -> a data directory for structured_translation, in one command.

    posattn-prepare --source en --target de --train raw/train --valid raw/val \
        --test raw/test --model-dir stanza_resources --symbols 8000 --out data

reads raw/train.en, raw/train.de and so on. Killed at any moment, the same command goes on where it
was. The choices are stored in data/prepare.json, and new text is prepared by them.
"""

import argparse
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, positive
from fairseq_posattn.io.command_line import run
from fairseq_posattn.parsing.cluster import add_cluster_options, cluster_of
from fairseq_posattn.parsing.options import add_parser_options
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.pipeline import SEGMENTERS, TOKENIZERS


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-prepare", __doc__)
    add = parser.add_argument
    add("--source", required=True, help="source language: the last part of the names")
    add("--target", required=True, help="target language")
    add("--train", required=True, metavar="PREFIX", help="PREFIX.SOURCE, PREFIX.TARGET")
    add("--valid", metavar="PREFIX")
    add("--test", metavar="PREFIX", nargs="+", default=[], help="test, test1, ... of the data")
    add("--out", required=True, type=Path, help="the data directory")
    add("--work", type=Path, help="for the files between the steps (default: OUT.work)")
    add_text_options(parser.add_argument_group("text"))
    add_parser_options(parser.add_argument_group("parser"))
    add_cluster_options(parser.add_argument_group("where the source is parsed"))
    add_piece_options(parser.add_argument_group("pieces"))
    add_limits(parser.add_argument_group("training pairs"))
    return parser.parse_args()


def add_text_options(group) -> None:
    add = group.add_argument
    add("--no-normalize", action="store_true", help="leave punctuation as it is")
    add(
        "--tokenize",
        choices=TOKENIZERS,
        default="stanza",
        help="words of the source: stanza's (default), those of moses, or separated by spaces",
    )
    add(
        "--target-tokenize",
        choices=("moses", "spaces"),
        default="moses",
        help="words of the target, for subword-nmt (default: %(default)s)",
    )


def add_piece_options(group) -> None:
    add = group.add_argument
    add("--segmenter", choices=SEGMENTERS, default="subword-nmt", help="default: %(default)s")
    add("--symbols", type=positive, default=32000, help="merges, or pieces (default: %(default)s)")
    add(
        "--min-frequency",
        type=positive,
        default=2,
        help="of a pair to merge (default: %(default)s)",
    )
    add("--model-type", choices=("unigram", "bpe"), default="unigram", help="of sentencepiece")
    add("--character-coverage", type=float, default=0.9995, help="of sentencepiece")
    add("--separate", action="store_true", help="pieces and dictionary of each language alone")
    add(
        "--shards",
        type=positive,
        default=1,
        help="folders of data, OUT/shard0 and so on: fairseq then holds one of them at a time, "
        "which very large corpora need (default: %(default)s)",
    )
    add("--binarize-workers", type=positive, default=1, help="processes of fairseq-preprocess")


def add_limits(group) -> None:
    add = group.add_argument
    add("--min-length", type=int, default=1, help="in pieces (default: %(default)s)")
    add("--max-length", type=int, default=250, help="in pieces (default: %(default)s)")
    add("--max-ratio", type=float, default=3.0, help="longer to shorter (default: %(default)s)")


def settings_of(options: argparse.Namespace) -> ParserSettings:
    if options.tokenize == "stanza" and options.parser != "stanza":
        raise InputError("--tokenize stanza needs --parser stanza: take --tokenize spaces or moses")
    return ParserSettings(
        parser=options.parser,
        lang=options.lang or options.source,
        model_dir=options.model_dir and str(Path(options.model_dir).absolute()),
        package=options.package,
        tokenized=options.tokenize != "stanza",
        max_words=options.max_words,
        long_lines=options.long_lines,
        on_failure=options.on_failure,
        several_roots=options.several_roots,
    )


def main() -> None:
    options = parse_options()
    settings = settings_of(options)
    from fairseq_posattn.preparation.job import Corpus, Job, Learning, Limits
    from fairseq_posattn.preparation.prepare import prepare
    from fairseq_posattn.text.pipeline import TextConfig

    if options.download:
        from fairseq_posattn.parsing.stanza_parser import download

        download(settings)
    config = TextConfig(
        options.source,
        options.target,
        normalize=not options.no_normalize,
        tokenize=options.tokenize,
        target_tokenize=options.target_tokenize,
        segmenter=options.segmenter,
        parser=settings,
    )
    learning = Learning(
        options.symbols,
        options.min_frequency,
        options.model_type,
        options.character_coverage,
        options.separate,
    )
    job = Job(
        Corpus(options.train, options.valid, options.test),
        options.out,
        options.work or Path(f"{options.out}.work"),
        config,
        learning,
        Limits(options.min_length, options.max_length, options.max_ratio),
        cluster_of(options),
        options.shard_lines,
        options.binarize_workers,
        options.shards,
    )
    prepare(job)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
