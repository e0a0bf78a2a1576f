"""Tree providers find the trees of new sentences.

A provider gets the lines that are translated, and returns the tree of each line, or None. Its
tokens need not be those of the line, because words and pieces are aligned by their characters. A
provider of your own is a subclass of TreeProvider with `@register` above it; --tree-provider takes
its `name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from fairseq_posattn.core.registration import add
from fairseq_posattn.core.specification import registered
from fairseq_posattn.text.languages import language
from fairseq_posattn.text.live.parser_process import LiveParser
from fairseq_posattn.text.live.segmented import SegmentedLine
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees import Sentence, TreeError, escape_whitespace
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.projection import match
from fairseq_posattn.trees.sentence import UNKNOWN, labels_of, shortened

__all__ = ["PROVIDERS", "SegmentedLine", "Sentence", "TreeProvider", "register"]


class TreeProvider:
    """A tree provider finds the trees of new lines; a subclass needs `name` and `parsed` only.

    lazy: if it is True, the provider is asked for the lines of each batch when the batch is made,
        in any order, and also for binarised data without trees. If it is False, the provider is
        asked for the lines of new text as they come in, in their order.
    """

    name: ClassVar[str]
    lazy: ClassVar[bool] = False

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None) -> TreeProvider:
        """Make the provider that the options of the task, or the data, describe.

        This one reads no options, and refuses --tree-file, which would have no effect.
        """
        cls.refuse_tree_file(cfg)
        return cls()

    @classmethod
    def refuse_tree_file(cls, cfg: Any) -> None:
        """Raise an error where --tree-file is given, which this provider does not read."""
        if cfg.tree_file:
            raise TreeError(
                f"--tree-provider {cls.name} does not read --tree-file {cfg.tree_file}; "
                "leave one out"
            )

    def words(self, lines: Sequence[str]) -> list[Sentence] | None:
        """Tokenise the lines as the training data were, or return None to take them as they are."""
        return None

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        """Return the tree of each line, in order, or None for a line without a tree.

        If `words` has tokenised the lines, these are trees of those words. Each line is asked for
        once.
        """
        raise NotImplementedError


ProviderClass = TypeVar("ProviderClass", bound=TreeProvider)
PROVIDERS: dict[str, type[TreeProvider]] = {}


def register(provider: type[ProviderClass]) -> type[ProviderClass]:
    """Add a tree provider to the table, as a class decorator, which any file may use.

    Raise a RegistrationError, which names the class and its line, if the class cannot work.
    """
    add(PROVIDERS, provider, TreeProvider, "tree provider")
    return provider


@register
class NoProvider(TreeProvider):
    """This provider has no tree for any sentence."""

    name = "none"

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        return [None] * len(lines)


@register
class ConlluProvider(TreeProvider):
    """This provider gives the k-th sentence the k-th tree of a CoNLL-U file."""

    name = "conllu"

    def __init__(self, path: str, several_roots: str = "error"):
        self.path = path
        self.trees = map(known_labels, read_labelled(path, several_roots))
        self.asked = 0

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None = None) -> ConlluProvider:
        if not cfg.tree_file:
            raise TreeError("--tree-provider conllu needs trees; name --tree-file FILE.conllu")
        return cls(cfg.tree_file, str(cfg.several_roots))

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        return [self.next_tree(line.text) for line in lines]

    def next_tree(self, line: str) -> Sentence | None:
        """Return the next tree of the file, checked against the line, or None if there is none."""
        self.asked += 1
        sentence = next(self.trees, None)
        if sentence is None:
            return None
        self.check(line, sentence)
        return None if sentence.parents is None else sentence

    def check(self, line: str, sentence: Sentence) -> None:
        """Raise an error unless the sentence has the characters of the line."""
        if [escape_whitespace(word) for word in line.split(" ")] == sentence.tokens:
            return
        where = sentence.where
        try:
            match(line, sentence.tokens, where)
        except TreeError:
            raise TreeError(
                f"{where}: the words of input line {self.asked} are not those "
                f"of tree {self.asked}: the line has '{shortened(line)}', "
                f"the tree '{shortened(str(sentence))}'; name the trees of this text"
            ) from None


def known_labels(sentence: Sentence) -> Sentence:
    """Return a sentence without the labels that its columns leave open with `_`."""
    relations, tags = labels_of(sentence)
    return replace(
        sentence,
        relations=None if set(relations) == {UNKNOWN} else sentence.relations,
        tags=None if set(tags) == {UNKNOWN} else sentence.tags,
    )


@register
class StanzaProvider(TreeProvider):
    """This provider parses with stanza, a batch at a time, in a process of its own."""

    name = "stanza"
    lazy = True

    def __init__(self, settings: ParserSettings):
        self.parser = LiveParser(settings)

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None = None) -> StanzaProvider:
        cls.refuse_tree_file(cfg)
        return cls(parser_settings(cfg, pipeline))

    def words(self, lines: Sequence[str]) -> list[Sentence]:
        return self.parser.tokenize(lines)

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        words = [line.words for line in lines if line.words is not None]
        if len(words) < len(lines):  # a program asks for the trees of lines alone
            words = self.words([line.text for line in lines])
        return [
            None if sentence.parents is None else sentence.escaped()
            for sentence in self.parser.parse(words)
        ]


def parser_settings(cfg: Any, pipeline: TextPipeline | None) -> ParserSettings:
    """Return the settings with which the data were parsed, changed as the options say."""
    settings = pipeline.config.parser if pipeline else ParserSettings()
    chosen = {
        "lang": cfg.parser_lang,
        "model_dir": cfg.parser_dir,
        "tokenized": cfg.parser_tokenized or None,
    }
    if pipeline is None and not cfg.parser_lang:
        chosen["lang"] = language(cfg.source_lang).stanza
    if str(cfg.missing_tree) == "flat":
        chosen["on_failure"] = "flat"
    return replace(settings, **{name: value for name, value in chosen.items() if value is not None})


def provider_name(cfg: Any, pipeline: TextPipeline | None) -> str:
    """Return the name of the provider: by default conllu for a tree file, or else the data's."""
    if cfg.tree_provider:
        return str(cfg.tree_provider)
    if cfg.tree_file:
        return "conllu"
    parsed_by = pipeline.config.parser.parser if pipeline else "none"
    return "stanza" if parsed_by == "stanza" else "none"


def provider_class(cfg: Any, pipeline: TextPipeline | None) -> type[TreeProvider]:
    """Return the class of the provider that the options or the data name."""
    return registered(provider_name(cfg, pipeline), PROVIDERS, "tree provider")


def build_provider(cfg: Any, pipeline: TextPipeline | None = None) -> TreeProvider:
    """Return the provider that the options or the data name."""
    return provider_class(cfg, pipeline).from_options(cfg, pipeline)


def trees_of(provider: TreeProvider, lines: Sequence[SegmentedLine]) -> Sequence[Sentence | None]:
    """Return the trees that a provider gives, one for each line."""
    found = provider.parsed(lines)
    if len(found) != len(lines):
        raise TreeError(
            f"the tree provider {type(provider).__name__} gave {len(found)} trees for {len(lines)} "
            "lines; its method `parsed` must return a tree or None for each line"
        )
    return found
