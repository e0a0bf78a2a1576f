r"""Parse a text into CoNLL-U, with exactly one tree per input line, in the same order.

    posattn parse train.en --lang en --model-dir stanza_resources \
        --out work/train.conllu.xz --workers 4

You can interrupt the command at any time; run it again to resume.
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
    parser = command_parser("posattn parse", __doc__)
    parser.add_argument(
        "text", help="file to parse, one sentence per line; may be .gz, .xz or .zst"
    )
    parser.add_argument(
        "--out",
        required=True,
        help="write the trees to this file (.conllu, .conllu.xz or .conllu.zst)",
    )
    group = parser.add_argument_group("parser")
    add_parser_options(group, lang="en")
    group.add_argument(
        "--trees", metavar="CONLLU", help="with --parser conllu: read the trees from this file"
    )
    group.add_argument(
        "--tokenized",
        action="store_true",
        help="split the lines at spaces and tabs (default: tokenise with stanza)",
    )
    group.add_argument(
        "--no-tags",
        action="store_const",
        const=True,
        default=ABSENT,  # without --no-tags, prepare.json has no such key
        help="write a smaller file without lemmas, parts of speech and features (probing tasks "
        "need them)",
    )
    group = parser.add_argument_group("large corpora")
    add_cluster_options(group)
    group.add_argument(
        "--wait", action="store_true", help="on Slurm: exit only after the output is written"
    )
    group.add_argument(
        "--keep-parts", action="store_true", help="do not delete the shards in OUT.parts"
    )
    return parser.parse_args()


def settings_of(options: argparse.Namespace) -> ParserSettings:
    """Return the parser settings; raise an InputError if options contradict each other."""
    if (options.parser == "conllu") != (options.trees is not None):
        raise InputError(
            "--parser conllu and --trees FILE.conllu require each other; give both or neither"
        )
    return ParserSettings(
        **{name: getattr(options, name) for name in ParserSettings.__dataclass_fields__}
    )


def main() -> None:
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
