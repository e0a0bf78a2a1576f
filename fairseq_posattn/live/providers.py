"""Tree providers: where the trees of new sentences come from.

A provider gets the lines that are translated, and gives the tree of each, or None. Its tokens need
not be those of the line: pieces and words meet in the characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from fairseq_posattn.live.parser_process import LiveParser
from fairseq_posattn.live.segmented import SegmentedLine
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees import Sentence, TreeError, escape_whitespace, read_conllu
from fairseq_posattn.trees.alignment import match
from fairseq_posattn.trees.whitespace import shortened


class TreeProvider(Protocol):
    lazy: bool  # asked when a batch is made, or as soon as the lines are there

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None) -> TreeProvider:
        """The provider as the options of the task, or the data, describe it."""

    def words(self, lines: Sequence[str]) -> list[Sentence] | None:
        """The lines' words, as they were tokenised for training; None: as they are."""

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        """The tree of each line (of its words, if `words` gave them), in order; each is asked for
        once."""


class NoProvider:
    """Has no tree for any sentence."""

    lazy = False

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None = None) -> NoProvider:
        if cfg.tree_file:
            raise TreeError(f"--tree-provider none leaves no use for --tree-file {cfg.tree_file}")
        return cls()

    def words(self, lines: Sequence[str]) -> None:
        return None

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        return [None] * len(lines)


class ConlluProvider:
    """The k-th sentence asked for takes the k-th tree of a CoNLL-U file."""

    lazy = False

    def __init__(self, path: str, several_roots: str = "error"):
        self.path = path
        self.trees = read_conllu(path, several_roots)
        self.asked = 0

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None = None) -> ConlluProvider:
        if not cfg.tree_file:
            raise TreeError("--tree-provider conllu: name the trees with --tree-file FILE.conllu")
        return cls(cfg.tree_file, str(cfg.several_roots))

    def words(self, lines: Sequence[str]) -> None:
        return None

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        return [self.next_tree(line.text) for line in lines]

    def next_tree(self, line: str) -> Sentence | None:
        """The next tree of the file, checked to be that of the line; None if there is none."""
        self.asked += 1
        sentence = next(self.trees, None)
        if sentence is None:
            return None
        self.check(line, sentence)
        return None if sentence.parents is None else sentence

    def check(self, line: str, sentence: Sentence) -> None:
        """Raise unless the sentence has the characters of the line."""
        if [escape_whitespace(word) for word in line.split(" ")] == sentence.tokens:
            return
        where = sentence.where
        try:
            match(line, sentence.tokens, where)
        except TreeError:
            raise TreeError(
                f"{where}: the words of input line {self.asked} are not those "
                f"of tree {self.asked}: the line has '{shortened(line)}', "
                f"the tree '{shortened(str(sentence))}'"
            ) from None


class StanzaProvider:
    """stanza at work in a process of its own, a batch at a time."""

    lazy = True

    def __init__(self, settings: ParserSettings):
        self.parser = LiveParser(settings)

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None = None) -> StanzaProvider:
        if cfg.tree_file:
            raise TreeError(f"--tree-provider stanza leaves no use for --tree-file {cfg.tree_file}")
        return cls(parser_settings(cfg, pipeline))

    def words(self, lines: Sequence[str]) -> list[Sentence]:
        return self.parser.tokenize(lines)

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        words = [line.words for line in lines if line.words is not None]
        if len(words) < len(lines):  # lines that pieces of binarised data spell
            words = self.words([line.text for line in lines])
        return [
            None if sentence.parents is None else sentence.escaped()
            for sentence in self.parser.parse(words)
        ]


def parser_settings(cfg: Any, pipeline: TextPipeline | None) -> ParserSettings:
    """As the data were parsed, or as the options say."""
    settings = pipeline.config.parser if pipeline else ParserSettings()
    chosen = {
        "lang": cfg.parser_lang,
        "model_dir": cfg.parser_dir,
        "tokenized": cfg.parser_tokenized or None,
    }
    if pipeline is None and not cfg.parser_lang:
        chosen["lang"] = cfg.source_lang
    if str(cfg.missing_tree) == "flat":
        chosen["on_failure"] = "flat"
    return replace(settings, **{name: value for name, value in chosen.items() if value is not None})


PROVIDERS: dict[str, type[TreeProvider]] = {
    "conllu": ConlluProvider,
    "none": NoProvider,
    "stanza": StanzaProvider,
}


def provider_name(cfg: Any, pipeline: TextPipeline | None) -> str:
    """By default conllu where there is a tree file, else what parsed the training data."""
    if cfg.tree_provider:
        return str(cfg.tree_provider)
    if cfg.tree_file:
        return "conllu"
    parsed_by = pipeline.config.parser.parser if pipeline else "none"
    return "stanza" if parsed_by == "stanza" else "none"


def build_provider(cfg: Any, pipeline: TextPipeline | None = None) -> TreeProvider:
    """The provider that the options or the data name."""
    return PROVIDERS[provider_name(cfg, pipeline)].from_options(cfg, pipeline)
