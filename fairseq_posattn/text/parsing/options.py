"""Define the options of a parser for the command lines of posattn-parse and posattn-prepare."""

from __future__ import annotations

from fairseq_posattn.io.argument_types import add_fields, positive
from fairseq_posattn.text.parser_settings import PARSERS, ParserSettings
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
    add_fields(group, ParserSettings)
    add_several_roots(group)
    add("--download", action="store_true", help="download the models of stanza before parsing")
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
