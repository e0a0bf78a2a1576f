"""The options of a parser, on the command lines of posattn-parse and posattn-prepare."""

from __future__ import annotations

from fairseq_posattn.io.argument_types import positive
from fairseq_posattn.text.parser_settings import LONG_LINES, ON_FAILURE, PARSERS
from fairseq_posattn.trees.checks import SEVERAL_ROOTS


def add_parser_options(group, lang: str | None = None) -> None:
    add = group.add_argument
    add(
        "--parser",
        choices=PARSERS,
        default="stanza",
        help="stanza (default), or trees of these lines, made elsewhere",
    )
    default = lang or "SOURCE"
    add("--lang", default=lang, help=f"any language of stanza (default: {default})")
    add("--package", default="default", help="stanza's set of models (default: %(default)s)")
    add("--model-dir", metavar="DIR", help="stanza's models (default: stanza's own folder)")
    add("--download", action="store_true", help="get the models from the network first")
    add(
        "--max-words",
        type=positive,
        default=250,
        help="of a sentence parsed at once; costs grow with the square (default: %(default)s)",
    )
    add(
        "--long-lines",
        choices=LONG_LINES,
        default="cut",
        help="longer lines are parsed in parts, the roots below the first one's (default), or get "
        "no tree (skip); both are reported",
    )
    add(
        "--on-failure",
        choices=ON_FAILURE,
        default="stop",
        help="a line that makes the parser fail: an error (default), or a flat tree, reported",
    )
    add(
        "--several-roots",
        choices=SEVERAL_ROOTS,
        default="error",
        help="of trees made elsewhere: an error (default), or keep the first root",
    )
    add(
        "--shard-lines", type=positive, default=2000, help="lines in a shard (default: %(default)s)"
    )
