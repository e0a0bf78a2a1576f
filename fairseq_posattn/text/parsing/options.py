"""The settings of a parser, and the options of posattn parse and posattn prepare that set them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairseq_posattn.io.argument_types import add_fields, option, positive
from fairseq_posattn.io.records import ABSENT, as_document, at_least, one_of
from fairseq_posattn.trees.checks import SEVERAL_ROOTS

LONG_LINES = ("cut", "skip")
ON_FAILURE = ("stop", "flat")
PARSERS = ("stanza", "conllu", "none")
REMEDIES = ("on_failure", "several_roots")  # these affect only lines that cannot be parsed


@dataclass(frozen=True)
class ParserSettings:
    """All settings that affect the trees; they are stored together with the trees."""

    parser: str = field(default="stanza", metadata=one_of(*PARSERS))
    lang: str = "en"
    model_dir: str | None = option(
        "read stanza's models from this folder (default: stanza's own folder)", None, "", "FOLDER"
    )
    package: str = option(
        "parse with this package of stanza's models (default: %(default)s)", "default"
    )
    tokenized: bool = False
    max_words: int = option(
        "do not parse lines of more than this many words as a whole, because the cost is quadratic "
        "in the length (default: %(default)s)",
        250,
        type=positive,
        **at_least(1),
    )
    long_lines: str = option(
        "cut lines of more than --max-words words into parts, whose roots become children of the "
        "first part's root (cut, the default), or write no tree for them (skip); the command "
        "reports these lines",
        "cut",
        choices=LONG_LINES,
        **one_of(*LONG_LINES),
    )
    on_failure: str = option(
        "stop at a line on which the parser fails (stop, the default), or write a flat tree for it "
        "and report it (flat)",
        "stop",
        choices=ON_FAILURE,
        **one_of(*ON_FAILURE),
    )
    several_roots: str = field(default="error", metadata=one_of(*SEVERAL_ROOTS))
    no_tags: bool = ABSENT  # whether lemmas, parts of speech and features are omitted

    def describe(self) -> dict[str, Any]:
        """Return all settings except REMEDIES, which affect only lines that cannot be parsed."""
        return {name: value for name, value in as_document(self).items() if name not in REMEDIES}


PARSE_HELP = "parse with stanza (default), or use the trees of --trees (conllu)"
PREPARE_HELP = (
    "parse the source with stanza (default), read one tree per line from PREFIX.conllu, which may "
    "end in .gz, .xz or .zst (conllu), or make data without trees (none); with --treebank, use the "
    "treebank's own trees by default"
)


def add_parser_options(group: Any, lang: str | None = None) -> None:
    """Add the options of a dependency parser to a command line.

    lang: the default language for posattn parse; None to add the options of posattn prepare.
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
        help=f"set the language of the text, which stanza must support (default: {default})",
    )
    add_fields(group, ParserSettings)
    add_several_roots(group)
    add("--download", action="store_true", help="download stanza's models before parsing")
    add(
        "--shard-lines",
        type=positive,
        default=2000,
        help="cut the text into shards of this many lines (default: %(default)s)",
    )


def add_several_roots(group: Any) -> None:
    group.add_argument(
        "--several-roots",
        choices=SEVERAL_ROOTS,
        default="error",
        help="stop at an input tree with several roots (error, the default), or make the other "
        "roots children of the first one (first)",
    )
