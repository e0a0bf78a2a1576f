r"""Make a data directory for structured_translation from raw parallel text.

    posattn-prepare --source en --target de --train raw/train --valid raw/val \
        --test raw/test --model-dir stanza_resources --symbols 8000 --out data

reads raw/train.en, raw/train.de and so on. If the command is killed, run it again, and it goes on
where it was. The choices are stored in data/prepare.json, by which new text is prepared, too.
"""

import argparse
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, new_folder, positive
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.preparation.control import add_control_options, control_of
from fairseq_posattn.preparation.job import add_label_subtypes
from fairseq_posattn.text.languages import language
from fairseq_posattn.text.parsing.options import ParserSettings, add_parser_options
from fairseq_posattn.text.pipeline import SEGMENTERS, TOKENIZERS
from fairseq_posattn.work.cluster import add_cluster_options, cluster_of


def parse_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = command_parser("posattn-prepare", __doc__)
    add = parser.add_argument
    add("--source", required=True, help="translate from this language, in which file names end")
    add("--target", required=True, help="translate into this language, in which file names end")
    add(
        "--train",
        required=True,
        metavar="PREFIX",
        help="train on the texts PREFIX.SOURCE and PREFIX.TARGET",
    )
    add("--valid", metavar="PREFIX", help="validate on the texts of this prefix")
    add(
        "--test",
        metavar="PREFIX",
        nargs="+",
        default=[],
        help="test on the texts of these prefixes, which become the splits test, test1 and so on",
    )
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
    add_control_options(parser.add_argument_group("control trees"))
    add_piece_options(parser.add_argument_group("pieces"))
    add_limits(parser.add_argument_group("training pairs"))
    return parser.parse_args()


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
        default="stanza",
        help="tokenise the source by stanza (default) or by Moses, or split it at spaces",
    )
    add(
        "--target-tokenize",
        choices=("moses", "spaces"),
        default="moses",
        help="with subword-nmt: tokenise the target by Moses, or split it at spaces (default: "
        "%(default)s)",
    )


def add_piece_options(group) -> None:
    """Add the options that say how words become pieces and data."""
    add = group.add_argument
    add(
        "--segmenter",
        choices=SEGMENTERS,
        help="split text into pieces with this program (default: sentencepiece if a side has no "
        "spaces between words, as Chinese or Thai, or else subword-nmt)",
    )
    add(
        "--symbols",
        type=positive,
        default=32000,
        help="learn this many merges of subword-nmt, or pieces of sentencepiece (default: "
        "%(default)s)",
    )
    add(
        "--min-frequency",
        type=positive,
        default=2,
        help="with subword-nmt: merge only pairs that occur at least this often (default: "
        "%(default)s)",
    )
    add(
        "--model-type",
        choices=("unigram", "bpe"),
        default="unigram",
        help="with sentencepiece: learn a model of this type (default: %(default)s)",
    )
    add(
        "--character-coverage",
        type=float,
        default=0.9995,
        help="with sentencepiece: cover this share of all characters (default: %(default)s)",
    )
    add(
        "--learn-lines",
        type=positive,
        metavar="N",
        help="learn the pieces from N lines of each training text, which lie evenly in it "
        "(default: from all lines)",
    )
    add(
        "--separate",
        action="store_true",
        help="learn pieces and a dictionary for each language separately",
    )
    add_label_subtypes(group)
    add(
        "--shards",
        type=positive,
        default=1,
        help="make this many data folders, OUT/shard0 and so on, of which fairseq holds one at a "
        "time; very large corpora need them (default: %(default)s)",
    )
    add(
        "--binarize-workers",
        type=positive,
        default=1,
        help="binarise a text that is not cut into shards with this many processes of "
        "fairseq-preprocess (default: %(default)s)",
    )


def add_limits(group) -> None:
    """Add the options that say which training pairs are kept."""
    add = group.add_argument
    add(
        "--min-length",
        type=int,
        default=1,
        help="drop pairs with a side of fewer pieces (default: %(default)s)",
    )
    add(
        "--max-length",
        type=int,
        default=250,
        help="drop pairs with a side of more pieces (default: %(default)s)",
    )
    add(
        "--max-source-length",
        type=positive,
        help="keep only training pairs whose source has at most this many pieces (default: as "
        "--max-length)",
    )
    add(
        "--max-ratio",
        type=float,
        default=3.0,
        help="drop pairs in which one side is more than this many times longer (default: "
        "%(default)s)",
    )


def other_code(name: str) -> str:
    """Return the code of the language that a name means, or ABSENT if it is the name itself."""
    code = language(name).code
    return ABSENT if code == name else code


def settings_of(options: argparse.Namespace) -> ParserSettings:
    """Return the settings of the parser, or refuse options that contradict each other."""
    if options.tokenize == "stanza" and options.parser != "stanza":
        raise InputError(
            "--tokenize stanza needs --parser stanza; choose --tokenize spaces or moses"
        )
    return ParserSettings(
        parser=options.parser,
        lang=options.lang or language(options.source).stanza,
        model_dir=options.model_dir and str(Path(options.model_dir).absolute()),
        package=options.package,
        tokenized=options.tokenize != "stanza",
        max_words=options.max_words,
        long_lines=options.long_lines,
        on_failure=options.on_failure,
        several_roots=options.several_roots,
    )


def main() -> None:
    """Prepare the data that the command line describes."""
    options = parse_options()
    settings = settings_of(options)
    from fairseq_posattn.preparation.job import Corpus, Job, Learning, Limits, suited_segmenter
    from fairseq_posattn.preparation.prepare import prepare
    from fairseq_posattn.text.pipeline import TextConfig

    if options.download:
        from fairseq_posattn.text.parsing.stanza_parser import download

        download(settings)
    config = TextConfig(
        options.source,
        options.target,
        normalize=not options.no_normalize,
        tokenize=options.tokenize,
        target_tokenize=options.target_tokenize,
        segmenter=options.segmenter
        or suited_segmenter(options.source, options.target, options.train, options.out),
        parser=settings,
        control=control_of(options),
        lowercase=options.lowercase,
        source_code=other_code(options.source),
        target_code=other_code(options.target),
    )
    learning = Learning(
        options.symbols,
        options.min_frequency,
        options.model_type,
        options.character_coverage,
        options.separate,
        options.learn_lines,
    )
    job = Job(
        Corpus(options.train, options.valid, options.test),
        options.out,
        options.work or Path(f"{options.out}.work"),
        config,
        learning,
        Limits(
            options.min_length, options.max_length, options.max_ratio, options.max_source_length
        ),
        cluster_of(options),
        options.shard_lines,
        options.binarize_workers,
        options.shards,
        options.label_subtypes,
    )
    if options.plan:
        from fairseq_posattn.preparation.estimate import estimate

        found = estimate(job)
        print(found.table(options.workers or 1, options.binarize_workers, job.step_lines))
        return
    prepare(job)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
