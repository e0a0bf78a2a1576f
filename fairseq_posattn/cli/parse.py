r"""Text -> CoNLL-U: one tree for each line, always, in the same order.

    posattn-parse train.en --lang en --model-dir stanza_resources \
        --out work/train.conllu.xz --workers 4

Killed at any moment, the same command goes on where it was.
"""

import argparse

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.parsing.cluster import add_cluster_options, cluster_of
from fairseq_posattn.parsing.options import add_parser_options
from fairseq_posattn.text.parser_settings import ParserSettings


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-parse", __doc__)
    parser.add_argument("text", help="one sentence a line; plain, .gz, .xz or .zst")
    parser.add_argument("--out", required=True, help=".conllu, .conllu.xz or .conllu.zst")
    group = parser.add_argument_group("parser")
    add_parser_options(group, lang="en")
    group.add_argument("--trees", metavar="CONLLU", help="with --parser conllu: the trees")
    group.add_argument(
        "--tokenized",
        action="store_true",
        help="words are separated by spaces; else stanza tokenises the line",
    )
    group = parser.add_argument_group("at size")
    add_cluster_options(group)
    group.add_argument(
        "--wait", action="store_true", help="slurm: end when the result is there, not before"
    )
    group.add_argument(
        "--keep-parts", action="store_true", help="keep OUT.parts, the shards, at the end"
    )
    return parser.parse_args()


def settings_of(options: argparse.Namespace) -> ParserSettings:
    if (options.parser == "conllu") != (options.trees is not None):
        raise InputError("--parser conllu and --trees FILE.conllu go together")
    return ParserSettings(
        **{name: getattr(options, name) for name in ParserSettings.__dataclass_fields__}
    )


def main() -> None:
    options = parse_options()
    settings = settings_of(options)
    from fairseq_posattn.parsing.run import parse

    if options.download:
        from fairseq_posattn.parsing.stanza_parser import download

        download(settings)
    parse(
        options.text,
        options.out,
        settings,
        cluster_of(options),
        shard_lines=options.shard_lines,
        trees=options.trees,
        keep_parts=options.keep_parts,
        wait=options.wait,
    )


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
