r"""Build a data folder for --task structured_translation from raw parallel text.

    posattn prepare --source en --target de --train raw/train --valid raw/val \
        --test raw/test --model-dir stanza_resources --symbols 8000 --out data

The command reads raw/train.en, raw/train.de and so on. You can interrupt it at any time; run it
again to resume. The settings are stored in data/prepare.json, so that new text is preprocessed
identically.
"""

import argparse
from functools import partial
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import add_fields, chosen, command_parser, new_folder
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.preparation.corpus import Corpus, Treebanks
from fairseq_posattn.preparation.job import (
    Job,
    Learning,
    Limits,
    add_label_subtypes,
    suited_segmenter,
)
from fairseq_posattn.text.languages import language
from fairseq_posattn.text.parsing.options import ParserSettings, add_parser_options
from fairseq_posattn.text.pipeline import SEGMENTERS, TOKENIZERS
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.work.cluster import add_cluster_options, cluster_of


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn prepare", __doc__)
    add = parser.add_argument
    add("--source", required=True, help="source language and suffix of its files, such as en")
    add("--target", required=True, help="target language and suffix of its files, such as de")
    add_fields(parser, Corpus)
    add_fields(parser, Treebanks)
    add("--out", required=True, type=new_folder, help="write the data to this folder")
    add("--work", type=new_folder, help="folder for intermediate files (default: OUT.work)")
    add_text_options(parser.add_argument_group("text"))
    add_parser_options(parser.add_argument_group("parser"))
    add_cluster_options(parser.add_argument_group("parallel processing"))
    add_fields(parser.add_argument_group("control trees"), TreeControl)
    pieces = parser.add_argument_group("pieces")
    pieces.add_argument(
        "--segmenter",
        choices=SEGMENTERS,
        help="split text into subword units with this program (default: sentencepiece if one of "
        "the languages is written without spaces, such as Chinese or Thai, else subword-nmt)",
    )
    add_fields(pieces, Learning)
    add_label_subtypes(pieces)
    add_fields(pieces, Job)
    add_fields(parser.add_argument_group("training pairs"), Limits)
    options = parser.parse_args()
    if not options.train and not options.treebank:
        parser.error("the following arguments are required: --train, or --treebank")
    return options


def add_text_options(group) -> None:
    add = group.add_argument
    add("--no-normalize", action="store_true", help="do not normalise punctuation")
    add(
        "--lowercase",
        action="store_true",
        help="lowercase source and target (the source after parsing)",
    )
    add(
        "--tokenize",
        choices=TOKENIZERS,
        help="tokenise the source with stanza (default) or Moses, or split it at spaces (default "
        "with --treebank)",
    )
    add(
        "--target-tokenize",
        choices=("moses", "spaces"),
        default="moses",
        help="with subword-nmt: tokenise the target with Moses, or split it at spaces (default: "
        "%(default)s)",
    )


def refuse_beside_treebanks(options: argparse.Namespace) -> None:
    """Raise an InputError for options that cannot be combined with --treebank."""
    named = {
        "--train": options.train,
        "--valid": options.valid,
        "--test": options.test,
        f"--tokenize {options.tokenize}": options.tokenize != "spaces",
    }
    if wrong := next((name for name, given in named.items() if given), None):
        raise InputError(
            f"{wrong} contradicts --treebank, which provides texts and words; omit this option"
        )


def other_code(name: str) -> str:
    """Return the language code for a name such as `deu`, or ABSENT if the name is the code."""
    code = language(name).code
    return ABSENT if code == name else code


def settings_of(options: argparse.Namespace) -> ParserSettings:
    """Return the parser settings; raise an InputError if options contradict each other.

    With --treebank, words are read from the treebank, and so are trees unless --parser is given.
    """
    options.parser = options.parser or ("conllu" if options.treebank else "stanza")
    options.tokenize = options.tokenize or ("spaces" if options.treebank else "stanza")
    if options.treebank:
        refuse_beside_treebanks(options)
    if options.tokenize == "stanza" and options.parser != "stanza":
        raise InputError(
            "--tokenize stanza requires --parser stanza; choose --tokenize spaces or moses"
        )
    return chosen(
        ParserSettings,
        options,
        parser=options.parser,
        lang=options.lang or language(options.source).stanza,
        model_dir=options.model_dir and str(Path(options.model_dir).absolute()),
        tokenized=options.tokenize != "stanza",
        several_roots=options.several_roots,
    )


def main() -> None:
    options = parse_options()
    settings, treebanks = settings_of(options), chosen(Treebanks, options)
    from fairseq_posattn.preparation.prepare import prepare
    from fairseq_posattn.text.pipeline import TextConfig

    if options.download:
        from fairseq_posattn.text.parsing.stanza_parser import download

        download(settings)
    config = TextConfig(
        options.source,
        options.target,
        normalize=not (options.no_normalize or options.treebank),
        tokenize=options.tokenize,
        target_tokenize=options.target_tokenize,
        segmenter=options.segmenter
        or suited_segmenter(
            options.source, options.target, None if options.treebank else options.train, options.out
        ),
        parser=settings,
        control=chosen(TreeControl, options),
        lowercase=options.lowercase,
        source_code=other_code(options.source),
        target_code=other_code(options.target),
    )
    work = options.work or Path(f"{options.out}.work")
    job = chosen(
        Job,
        options,
        corpus=treebanks.corpus(work) if treebanks.treebank else chosen(Corpus, options),
        treebanks=treebanks,
        out=options.out,
        work=work,
        config=config,
        learning=chosen(Learning, options),
        limits=chosen(Limits, options),
        cluster=cluster_of(options),
        shard_lines=options.shard_lines,
        label_subtypes=options.label_subtypes,
    )
    prepare(job)


command = partial(run, main)
if __name__ == "__main__":
    command()
