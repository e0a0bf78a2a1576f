"""Define the settings of a parser, on which the trees of a corpus depend, and their options on the
command lines of posattn parse and posattn prepare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairseq_posattn.io.argument_types import add_fields, option, positive
from fairseq_posattn.io.records import ABSENT, as_document, at_least, one_of
from fairseq_posattn.trees.checks import SEVERAL_ROOTS

LONG_LINES = ("cut", "skip")
ON_FAILURE = ("stop", "flat")
PARSERS = ("stanza", "conllu", "none")
REMEDIES = ("on_failure", "several_roots")  # they only concern lines that would be an error


@dataclass(frozen=True)
class ParserSettings:
    """These settings are all that a tree depends on; they are kept with what was parsed."""

    parser: str = field(default="stanza", metadata=one_of(*PARSERS))
    lang: str = "en"
    model_dir: str | None = option(
        "stanza's models lie in this folder (default: stanza's own folder)", None, "", "FOLDER"
    )
    package: str = option(
        "parse with this package of stanza's models (default: %(default)s)", "default"
    )
    tokenized: bool = False
    max_words: int = option(
        "longer lines are not parsed at once, because costs grow with the square of the length "
        "(default: %(default)s)",
        250,
        type=positive,
        **at_least(1),
    )
    long_lines: str = option(
        "cut a line of more words into parts, whose roots become children of the first part's root "
        "(default), or skip its tree; both are reported",
        "cut",
        choices=LONG_LINES,
        **one_of(*LONG_LINES),
    )
    on_failure: str = option(
        "if the parser fails on a line, stop with an error (default), or give the line a flat tree "
        "and report it",
        "stop",
        choices=ON_FAILURE,
        **one_of(*ON_FAILURE),
    )
    several_roots: str = field(default="error", metadata=one_of(*SEVERAL_ROOTS))
    no_tags: bool = ABSENT  # whether lemmas, parts of speech and features are left out

    def describe(self) -> dict[str, Any]:
        """Return the settings that the tree of a line depends on if the line can be parsed."""
        return {name: value for name, value in as_document(self).items() if name not in REMEDIES}


PARSE_HELP = "parse with stanza (default), or take the trees of --trees"
PREPARE_HELP = (
    "parse the source with stanza (default); or take the trees of PREFIX.conllu, which may end in "
    ".gz, .xz or .zst, one for each line of PREFIX.SOURCE, beside which it lies; or make data "
    "without trees, for models that read none; --treebank has its own trees"
)


def add_parser_options(group: Any, lang: str | None = None) -> None:
    """Add the options of a parser to a parser of a command line.

    lang: the default language of posattn parse; None adds the options of posattn prepare.
    """
    add = group.add_argument
    add(
        "--parser",
        choices=[name for name in PARSERS if name != "none" or lang is None],
        default="stanza" if lang else None,
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


def add_several_roots(group: Any) -> None:
    group.add_argument(
        "--several-roots",
        choices=SEVERAL_ROOTS,
        default="error",
        help="if a tree made elsewhere has several roots, stop with an error (default), or keep "
        "the first and make the others its children",
    )
