r"""Parse a text to CoNLL-U, with exactly one tree for each line, in the same order.

    posattn parse train.en --lang en --model-dir stanza_resources \
        --out work/train.conllu.xz --workers 4

If the command is killed, run it again, and it goes on where it was.
"""

import argparse
from functools import partial

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.text.parsing.options import ParserSettings, add_parser_options
from fairseq_posattn.work.cluster import add_cluster_options, cluster_of


def parse_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = command_parser("posattn parse", __doc__)
    parser.add_argument(
        "text", help="parse this file, with one sentence in each line; .gz, .xz and .zst are read"
    )
    parser.add_argument(
        "--out",
        required=True,
        help="write the trees here; the name ends in .conllu, .conllu.xz or .conllu.zst",
    )
    group = parser.add_argument_group("parser")
    add_parser_options(group, lang="en")
    group.add_argument(
        "--trees", metavar="CONLLU", help="with --parser conllu: take the trees of this file"
    )
    group.add_argument(
        "--tokenized",
        action="store_true",
        help="split the lines at spaces and tabs; without it, stanza tokenises them",
    )
    group.add_argument(
        "--no-tags",
        action="store_const",
        const=True,
        default=ABSENT,  # prepare.json has no such key
        help="leave out lemmas, parts of speech and features, which probes ask for; the file is "
        "smaller then",
    )
    group = parser.add_argument_group("large corpora")
    add_cluster_options(group)
    group.add_argument(
        "--wait", action="store_true", help="slurm: wait until the result is there, then end"
    )
    group.add_argument(
        "--keep-parts", action="store_true", help="keep the shards in OUT.parts at the end"
    )
    return parser.parse_args()


def settings_of(options: argparse.Namespace) -> ParserSettings:
    """Return the settings of the parser, or refuse options that contradict each other."""
    if (options.parser == "conllu") != (options.trees is not None):
        raise InputError(
            "--parser conllu and --trees FILE.conllu need each other; give both or none"
        )
    return ParserSettings(
        **{name: getattr(options, name) for name in ParserSettings.__dataclass_fields__}
    )


def main() -> None:
    """Parse the text that the command line names."""
    options = parse_options()
    settings = settings_of(options)
    from fairseq_posattn.text.parsing.run import parse

    if options.download:
        from fairseq_posattn.text.parsing.stanza_parser import download

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


command = partial(run, main)
if __name__ == "__main__":
    command()
