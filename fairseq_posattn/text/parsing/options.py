"""Define the options of a parser for the command lines of posattn-parse and posattn-prepare."""

from __future__ import annotations

from fairseq_posattn.io.argument_types import positive
from fairseq_posattn.text.parser_settings import LONG_LINES, ON_FAILURE, PARSERS
from fairseq_posattn.trees.checks import SEVERAL_ROOTS

PARSE_HELP = "parse with stanza (default), or take the trees of --trees"
PREPARE_HELP = (
    "parse the source with stanza (default); or take the trees of PREFIX.conllu, which may end in "
    ".gz, .xz or .zst, one for each line of PREFIX.SOURCE, beside which it lies; or make data "
    "without trees, for models that read none"
)


def add_parser_options(group, lang: str | None = None) -> None:
    """Add the options of a parser to a parser of a command line.

    lang: the default language of posattn-parse; None adds the options of posattn-prepare.
    """
    add = group.add_argument
    add(
        "--parser",
        choices=[name for name in PARSERS if name != "none" or lang is None],
        default="stanza",
        help=PREPARE_HELP if lang is None else PARSE_HELP,
    )
    default = lang or "SOURCE"
    add(
        "--lang",
        default=lang,
        help=f"the text is in this language, which stanza must know (default: {default})",
    )
    add(
        "--package",
        default="default",
        help="parse with this package of stanza's models (default: %(default)s)",
    )
    add(
        "--model-dir",
        metavar="DIR",
        help="stanza's models lie in this folder (default: stanza's own folder)",
    )
    add("--download", action="store_true", help="download the models of stanza before parsing")
    add(
        "--max-words",
        type=positive,
        default=250,
        help="longer lines are not parsed at once, because costs grow with the square of the "
        "length (default: %(default)s)",
    )
    add(
        "--long-lines",
        choices=LONG_LINES,
        default="cut",
        help="cut a line of more words into parts, whose roots become children of the first part's "
        "root (default), or skip its tree; both are reported",
    )
    add(
        "--on-failure",
        choices=ON_FAILURE,
        default="stop",
        help="if the parser fails on a line, stop with an error (default), or give the line a flat "
        "tree and report it",
    )
    add_several_roots(group)
    add(
        "--shard-lines",
        type=positive,
        default=2000,
        help="each shard has this many lines (default: %(default)s)",
    )


def add_several_roots(group) -> None:
    """Add the option that says what happens to a tree with several roots."""
    group.add_argument(
        "--several-roots",
        choices=SEVERAL_ROOTS,
        default="error",
        help="if a tree made elsewhere has several roots, stop with an error (default), or keep "
        "the first and make the others its children",
    )
