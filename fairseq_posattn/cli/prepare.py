r"""Make a data directory for structured_translation from raw parallel text.

    posattn prepare --source en --target de --train raw/train --valid raw/val \
        --test raw/test --model-dir stanza_resources --symbols 8000 --out data

reads raw/train.en, raw/train.de and so on. If the command is killed, run it again, and it goes on
where it was. The choices are stored in data/prepare.json, by which new text is prepared, too.
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
    """Read the options of the command line."""
    parser = command_parser("posattn prepare", __doc__)
    add = parser.add_argument
    add("--source", required=True, help="translate from this language, in which file names end")
    add("--target", required=True, help="translate into this language, in which file names end")
    add_fields(parser, Corpus)
    add_fields(parser, Treebanks)
    add("--out", required=True, type=new_folder, help="write the data into this directory")
    add("--work", type=new_folder, help="keep the files between the steps here (default: OUT.work)")
    add(
        "--plan",
        action="store_true",
        help="begin nothing, but measure 2,000 pairs and say what each step will take: core hours, "
        "memory, disk, and the time with the given --workers",
    )
    add_text_options(parser.add_argument_group("text"))
    add_parser_options(parser.add_argument_group("parser"))
    add_cluster_options(parser.add_argument_group("where the work is done"))
    add_fields(parser.add_argument_group("control trees"), TreeControl)
    pieces = parser.add_argument_group("pieces")
    pieces.add_argument(
        "--segmenter",
        choices=SEGMENTERS,
        help="split text into pieces with this program (default: sentencepiece if a side has no "
        "spaces between words, as Chinese or Thai, or else subword-nmt)",
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
    """Add the options that say how text becomes words."""
    add = group.add_argument
    add("--no-normalize", action="store_true", help="leave the punctuation as it is")
    add(
        "--lowercase",
        action="store_true",
        help="write source and target in lower case; the source is parsed as it is",
    )
    add(
        "--tokenize",
        choices=TOKENIZERS,
        help="tokenise the source by stanza (default) or by Moses, or split it at spaces (default "
        "with --treebank)",
    )
    add(
        "--target-tokenize",
        choices=("moses", "spaces"),
        default="moses",
        help="with subword-nmt: tokenise the target by Moses, or split it at spaces (default: "
        "%(default)s)",
    )


def refuse_beside_treebanks(options: argparse.Namespace) -> None:
    """Refuse options that would take the place of what treebanks have."""
    named = {
        "--train": options.train,
        "--valid": options.valid,
        "--test": options.test,
        "--plan": options.plan,
        f"--tokenize {options.tokenize}": options.tokenize != "spaces",
    }
    if wrong := next((name for name, given in named.items() if given), None):
        raise InputError(
            f"{wrong}: with --treebank, texts and words are those of the treebanks; leave it out"
        )


def other_code(name: str) -> str:
    """Return the code of the language that a name means, or ABSENT if it is the name itself."""
    code = language(name).code
    return ABSENT if code == name else code


def settings_of(options: argparse.Namespace) -> ParserSettings:
    """Return the settings of the parser, or refuse options that contradict each other.

    A treebank has its own words and, unless another parser is named, its own trees.
    """
    options.parser = options.parser or ("conllu" if options.treebank else "stanza")
    options.tokenize = options.tokenize or ("spaces" if options.treebank else "stanza")
    if options.treebank:
        refuse_beside_treebanks(options)
    if options.tokenize == "stanza" and options.parser != "stanza":
        raise InputError(
            "--tokenize stanza needs --parser stanza; choose --tokenize spaces or moses"
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
    """Prepare the data that the command line describes."""
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
    if options.plan:
        from fairseq_posattn.preparation.estimate import estimate

        found = estimate(job)
        print(found.table(options.workers or 1, options.binarize_workers, job.step_lines))
        return
    prepare(job)


command = partial(run, main)
if __name__ == "__main__":
    command()
