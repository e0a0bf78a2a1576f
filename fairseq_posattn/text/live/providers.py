"""Tree providers, which determine the trees of new sentences.

A provider returns a tree, or None, for each line to translate. The tokens of the tree may differ
from those of the line, because words and pieces are aligned by their characters. To use a custom
provider, register it and pass its name to --tree-provider:

    @register
    class Chains(TreeProvider):
        name = "chains"

        def parsed(self, lines):
            texts = [line.text.split() for line in lines]
            return [Sentence(words, list(range(len(words)))) for words in texts]
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
    """The base class of tree providers. A subclass need only define `name` and `parsed`.

    lazy: if True, `parsed` is called when a batch is created, with its lines in any order and, for
        new text, perhaps lines of later batches; such a provider can also parse binarised data
        without trees. If False, `parsed` is called with new lines as they are read, in order.
    """

    name: ClassVar[str]
    lazy: ClassVar[bool] = False

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None) -> TreeProvider:
        """Create the provider from the options of the task and the pipeline of the data.

        The default implementation reads no options, and raises a TreeError if --tree-file is given,
        because the file would be ignored.
        """
        cls.refuse_tree_file(cfg)
        return cls()

    @classmethod
    def refuse_tree_file(cls, cfg: Any) -> None:
        """Raise a TreeError if --tree-file is given, because this provider does not read it."""
        if cfg.tree_file:
            raise TreeError(
                f"--tree-provider {cls.name} does not read --tree-file {cfg.tree_file}; use only "
                "one of them"
            )

    def words(self, lines: Sequence[str]) -> list[Sentence] | None:
        """Tokenise lines as in the training data, or return None to split them at spaces."""
        return None

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        """Return the tree of each line, in order, or None for a line without a tree.

        If `words` tokenised the lines, the trees must have these words. Unless `lazy`, lines are
        passed once.
        """
        raise NotImplementedError


ProviderClass = TypeVar("ProviderClass", bound=TreeProvider)
PROVIDERS: dict[str, type[TreeProvider]] = {}


def register(provider: type[ProviderClass]) -> type[ProviderClass]:
    """Class decorator that registers a tree provider for --tree-provider.

    Raises RegistrationError, with the name and line of the class, if the class is invalid.
    """
    add(PROVIDERS, provider, TreeProvider, "tree provider")
    return provider


@register
class NoProvider(TreeProvider):
    """Provides no trees."""

    name = "none"

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        return [None] * len(lines)


@register
class ConlluProvider(TreeProvider):
    """Assigns the k-th tree of a CoNLL-U file to the k-th sentence."""

    name = "conllu"

    def __init__(self, path: str, several_roots: str = "error"):
        self.path = path
        self.trees = map(known_labels, read_labelled(path, several_roots))
        self.asked = 0

    @classmethod
    def from_options(cls, cfg: Any, pipeline: TextPipeline | None = None) -> ConlluProvider:
        if not cfg.tree_file:
            raise TreeError("--tree-provider conllu needs trees; add --tree-file FILE.conllu")
        return cls(cfg.tree_file, str(cfg.several_roots))

    def parsed(self, lines: Sequence[SegmentedLine]) -> list[Sentence | None]:
        return [self.next_tree(line.text) for line in lines]

    def next_tree(self, line: str) -> Sentence | None:
        """Return the next tree of the file, or None at its end.

        Raises TreeError if the tree belongs to another line.
        """
        self.asked += 1
        sentence = next(self.trees, None)
        if sentence is None:
            return None
        self.check(line, sentence)
        return None if sentence.parents is None else sentence

    def check(self, line: str, sentence: Sentence) -> None:
        """Raise a TreeError unless the sentence consists of the same characters as the line."""
        if [escape_whitespace(word) for word in line.split(" ")] == sentence.tokens:
            return
        where = sentence.where
        try:
            match(line, sentence.tokens, where)
        except TreeError:
            raise TreeError(
                f"{where}: tree {self.asked} is not the tree of input line {self.asked}, because "
                f"its words are '{shortened(str(sentence))}', but the line is '{shortened(line)}'; "
                "use a file with the trees of this text"
            ) from None


def known_labels(sentence: Sentence) -> Sentence:
    """Remove the relations or tags of a sentence if all of them are `_`."""
    relations, tags = labels_of(sentence)
    return replace(
        sentence,
        relations=None if set(relations) == {UNKNOWN} else sentence.relations,
        tags=None if set(tags) == {UNKNOWN} else sentence.tags,
    )


@register
class StanzaProvider(TreeProvider):
    """Parses batches with stanza in a separate process."""

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
        if len(words) < len(lines):  # a program passed lines without words
            words = self.words([line.text for line in lines])
        return [
            None if sentence.parents is None else sentence.escaped()
            for sentence in self.parser.parse(words)
        ]


def parser_settings(cfg: Any, pipeline: TextPipeline | None) -> ParserSettings:
    """Return the parser settings of the data, overridden by the options of the task."""
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
    """Return the name of the selected provider.

    The default is conllu if --tree-file is given, stanza if a parser (stanza or local) parsed the
    data, and none otherwise.
    """
    if cfg.tree_provider:
        return str(cfg.tree_provider)
    if cfg.tree_file:
        return "conllu"
    parsed_by = pipeline.config.parser.parser if pipeline else "none"
    return "stanza" if parsed_by in ("stanza", "local") else "none"


def provider_class(cfg: Any, pipeline: TextPipeline | None) -> type[TreeProvider]:
    """Return the class of the provider that is selected by the options or the data."""
    return registered(provider_name(cfg, pipeline), PROVIDERS, "tree provider")


def trees_of(provider: TreeProvider, lines: Sequence[SegmentedLine]) -> Sequence[Sentence | None]:
    """Return the provider's results; raise a TreeError unless there is exactly one per line."""
    found = provider.parsed(lines)
    if len(found) != len(lines):
        raise TreeError(
            f"the tree provider {type(provider).__name__} returned {len(found)} trees for "
            f"{len(lines)} lines; its method `parsed` must return a tree or None for each line"
        )
    return found
