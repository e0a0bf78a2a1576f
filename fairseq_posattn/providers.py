"""Tree providers: where the trees of new sentences come from.

A provider gets the lines that are translated, and gives the tree of each, or None. Its tokens need
not be those of the line: pieces and words meet in the characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from fairseq_posattn.parsing.live import LiveParser
from fairseq_posattn.parsing.parsed import ParsedLine
from fairseq_posattn.parsing.parsers import ParserSettings
from fairseq_posattn.preparation.choices import Preparation
from fairseq_posattn.trees import Parsed, Sentence, TreeError, plain_form, read_conllu
from fairseq_posattn.trees.alignment import match
from fairseq_posattn.trees.forms import shortened


class TreeProvider(Protocol):
    lazy: bool  # asked when a batch is made, or as soon as the lines are there

    @classmethod
    def from_options(cls, cfg, preparation: Preparation | None) -> TreeProvider:
        """The provider as the options of the task, or the data, describe it."""

    def words(self, lines: Sequence[str]) -> list[ParsedLine] | None:
        """The lines' words, as they were tokenised for training; None: as they are."""

    def parsed(self, lines: Sequence[str | ParsedLine]) -> list[Parsed | None]:
        """The tree of each line (of its words, if `words` gave them), in order; each is asked for
        once."""


class NoProvider:
    """Has no tree for any sentence."""

    lazy = False

    @classmethod
    def from_options(cls, cfg, preparation: Preparation | None = None) -> NoProvider:
        if cfg.tree_file:
            raise TreeError(f"--tree-provider none leaves no use for --tree-file {cfg.tree_file}")
        return cls()

    def words(self, lines: Sequence[str]) -> None:
        return None

    def parsed(self, lines: Sequence[str]) -> list[Parsed | None]:
        return [None] * len(lines)


class ConlluProvider:
    """The k-th sentence asked for takes the k-th tree of a CoNLL-U file."""

    lazy = False

    def __init__(self, path: str, several_roots: str = "error"):
        self.path = path
        self.trees = read_conllu(path, several_roots)
        self.asked = 0

    @classmethod
    def from_options(cls, cfg, preparation: Preparation | None = None) -> ConlluProvider:
        if not cfg.tree_file:
            raise TreeError("--tree-provider conllu: name the trees with --tree-file FILE.conllu")
        return cls(cfg.tree_file, str(cfg.several_roots))

    def words(self, lines: Sequence[str]) -> None:
        return None

    def parsed(self, lines: Sequence[str]) -> list[Parsed | None]:
        return [self.next_tree(line) for line in lines]

    def next_tree(self, line: str) -> Parsed | None:
        self.asked += 1
        sentence = next(self.trees, None)
        if sentence is None:
            return None
        self.check(line, sentence)
        if sentence.parents is None:
            return None
        return Parsed(sentence.tokens, sentence.parents, sentence.words_of_token)

    def check(self, line: str, sentence: Sentence) -> None:
        if [plain_form(word) for word in line.split(" ")] == sentence.tokens:
            return
        where = f"{self.path}:{sentence.line}"
        try:
            match(line, sentence.tokens, where)
        except TreeError:
            raise TreeError(
                f"{where}: the words of input line {self.asked} are not those "
                f"of tree {self.asked}: the line has '{shortened(line)}', "
                f"the tree '{shortened(' '.join(sentence.tokens))}'"
            ) from None


class StanzaProvider:
    """stanza at work in a process of its own, a batch at a time."""

    lazy = True

    def __init__(self, settings: ParserSettings):
        self.parser = LiveParser(settings)

    @classmethod
    def from_options(cls, cfg, preparation: Preparation | None = None) -> StanzaProvider:
        if cfg.tree_file:
            raise TreeError(f"--tree-provider stanza leaves no use for --tree-file {cfg.tree_file}")
        return cls(parser_settings(cfg, preparation))

    def words(self, lines: Sequence[str]) -> list[ParsedLine]:
        return self.parser.tokenize(lines)

    def parsed(self, lines: Sequence[ParsedLine]) -> list[Parsed | None]:
        return [as_tree(parsed) for parsed in self.parser.parse(lines)]


def as_tree(parsed: ParsedLine) -> Parsed | None:
    if parsed.parents is None:
        return None
    tokens = [plain_form(token) for token in parsed.tokens]
    return Parsed(tokens, parsed.parents, parsed.words_of_token)


def parser_settings(cfg, preparation: Preparation | None) -> ParserSettings:
    """As the data were parsed, or as the options say."""
    settings = preparation.choices.parser if preparation else ParserSettings()
    chosen = {
        "lang": cfg.parser_lang,
        "model_dir": cfg.parser_dir,
        "tokenized": cfg.parser_tokenized or None,
    }
    if preparation is None and not cfg.parser_lang:
        chosen["lang"] = cfg.source_lang
    if str(cfg.missing_tree) == "flat":
        chosen["on_failure"] = "flat"
    return replace(settings, **{name: value for name, value in chosen.items() if value is not None})


PROVIDERS = {"conllu": ConlluProvider, "none": NoProvider, "stanza": StanzaProvider}


def provider_name(cfg, preparation: Preparation | None) -> str:
    """By default conllu where there is a tree file, else what parsed the training data."""
    if cfg.tree_provider:
        return str(cfg.tree_provider)
    if cfg.tree_file:
        return "conllu"
    parsed_by = preparation.choices.parser.parser if preparation else "none"
    return "stanza" if parsed_by == "stanza" else "none"


def build_provider(cfg, preparation: Preparation | None = None) -> TreeProvider:
    return PROVIDERS[provider_name(cfg, preparation)].from_options(cfg, preparation)
