"""The settings of a parser, and the options of posattn parse."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import ABSENT, as_document, at_least, one_of, option
from fairseq_posattn.files.requests import options_of
from fairseq_posattn.jobs.cluster import Cluster
from fairseq_posattn.trees.checks import SEVERAL_ROOTS

LONG_LINES = ("cut", "skip")
ON_FAILURE = ("stop", "flat")
PARSERS = ("stanza", "local", "conllu", "none")
PARSER, CLUSTER = "parser", "large corpora"  # headings of the options
DOWNLOAD = "download stanza's models before parsing"
SHARD_LINES = "cut the text into shards of this many lines (default: %(default)s)"
REMEDIES = ("on_failure", "several_roots")  # these affect only lines that cannot be parsed


def root_option() -> Any:
    """Return a field for the option --several-roots."""
    return option(
        "stop at an input tree with several roots (error, the default), or make the other roots "
        "children of the first one (first)",
        "error",
        one_of(*SEVERAL_ROOTS),
    )


@dataclass(frozen=True)
class ParserSettings:
    """All settings that affect the trees; they are stored together with the trees."""

    parser: str = option(
        "parse with stanza (default), with a parser from posattn train-parser --kind local "
        "(local), which splits lines at spaces, or use the trees of --trees (conllu)",
        "stanza",
        one_of(*PARSERS),
        choices=("stanza", "local", "conllu"),
    )
    lang: str = option("set the language code of the parser's models (default: %(default)s)", "en")
    model_dir: str | None = option(
        "read the parser's models from this folder (default: stanza's own folder)",
        None,
        metavar="FOLDER",
    )
    package: str = option(
        "parse with this package of stanza's models (default: %(default)s)", "default"
    )
    tokenized: bool = option(
        "split the lines at spaces and tabs (default: tokenise with stanza)", False
    )
    max_words: int = option(
        "do not parse lines of more than this many words as a whole, because the cost is quadratic "
        "in the length (default: %(default)s)",
        250,
        at_least(1),
    )
    long_lines: str = option(
        "cut lines of more than --max-words words into parts, whose roots become children of the "
        "first part's root (cut, the default), or write no tree for them (skip); the command "
        "reports these lines",
        "cut",
        one_of(*LONG_LINES),
    )
    on_failure: str = option(
        "stop at a line on which the parser fails (stop, the default), or write a flat tree for it "
        "and report it (flat)",
        "stop",
        one_of(*ON_FAILURE),
    )
    several_roots: str = root_option()
    no_tags: bool = option(
        "write a smaller file without lemmas, parts of speech and features (probing tasks need "
        "them)",
        ABSENT,
    )

    def describe(self) -> dict[str, Any]:
        """Return all settings except REMEDIES, which affect only lines that cannot be parsed."""
        return {name: value for name, value in as_document(self).items() if name not in REMEDIES}


@dataclass(frozen=True, kw_only=True)
class ParseRequest:
    """The options of posattn parse."""

    command: ClassVar = "posattn parse"
    text: str = option("file to parse, one sentence per line; may be .gz, .xz or .zst")
    out: str = option(
        "write the trees to this file (.conllu, .conllu.xz or .conllu.zst)", required=True
    )
    settings: ParserSettings = options_of(ParserSettings, PARSER)
    download: bool = option(DOWNLOAD, False)
    shard_lines: int = option(SHARD_LINES, 2000, at_least(1))
    trees: str | None = option(
        "with --parser conllu: read the trees from this file", None, metavar="CONLLU"
    )
    cluster: Cluster = options_of(Cluster, CLUSTER)
    wait: bool = option("on Slurm: exit only after the output is written", False)
    keep_parts: bool = option("do not delete the shards in OUT.parts", False)

    def __post_init__(self) -> None:
        if (self.settings.parser == "conllu") != (self.trees is not None):
            raise InputError(
                "--parser conllu and --trees FILE.conllu require each other; give both or neither"
            )
