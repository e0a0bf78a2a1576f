#!/usr/bin/env python3
r"""Text -> CoNLL-U: one tree for each line, always, in the same order.

    python preprocess/parse.py train.en --lang en --model-dir stanza_resources \
        --out work/train.conllu.xz --workers 4

Killed at any moment, the same command goes on where it was.
"""

import argparse

from fairseq_posattn import command_line
from fairseq_posattn.files import InputError
from fairseq_posattn.parsing.options import add_parser_options, positive
from fairseq_posattn.parsing.parsers import ParserSettings

EXECUTORS = ("local", "slurm", "ray")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    add_cluster_options(parser.add_argument_group("at size"))
    return parser.parse_args()


def add_cluster_options(group) -> None:
    add = group.add_argument
    add(
        "--executor",
        choices=EXECUTORS,
        default="local",
        help="processes of this machine (default), a Slurm array, or a Ray cluster",
    )
    add("--memory-gb", type=positive, default=4, help="slurm, ray: for each worker")
    add("--gpus", type=int, default=0, help="slurm, ray: for each worker")
    add("--partition", default="", help="slurm: where to run")
    add(
        "--time",
        default="24:00:00",
        help="slurm: limit for one job of the array (of 1,000 at most)",
    )
    add("--setup", default="", help="slurm: command that activates the environment")
    add(
        "--sbatch",
        action="append",
        type=lambda text: text.partition("=")[::2],
        default=[],
        metavar="NAME[=VALUE]",
        help="slurm: further options of sbatch, e.g. account=nlp",
    )
    add("--keep-parts", action="store_true", help="keep OUT.parts, the shards, at the end")


def settings_of(options: argparse.Namespace) -> ParserSettings:
    if (options.parser == "conllu") != (options.trees is not None):
        raise InputError("--parser conllu and --trees FILE.conllu go together")
    return ParserSettings(
        **{name: getattr(options, name) for name in ParserSettings.__dataclass_fields__}
    )


def main() -> None:
    options = parse_options()
    settings = settings_of(options)
    from fairseq_posattn.parsing.executors import Cluster
    from fairseq_posattn.parsing.run import parse

    if options.download:
        from fairseq_posattn.parsing.stanza_parser import download

        download(settings)
    cluster = Cluster(
        options.executor,
        options.workers,
        options.partition,
        options.time,
        options.memory_gb,
        options.gpus,
        options.setup,
        dict(options.sbatch),
    )
    parse(
        options.text,
        options.out,
        settings,
        cluster,
        shard_lines=options.shard_lines,
        trees=options.trees,
        keep_parts=options.keep_parts,
    )


if __name__ == "__main__":
    command_line.run(main)
