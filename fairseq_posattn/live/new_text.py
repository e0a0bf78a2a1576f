"""New text on its way to the model: pieces at once, trees when a batch is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from fairseq_posattn.live.pending import NewTrees
from fairseq_posattn.live.providers import (
    PROVIDERS,
    StanzaProvider,
    TreeProvider,
    build_provider,
    parser_settings,
)
from fairseq_posattn.live.segmented import SegmentedLine, lines_of_encoder, lines_of_pipeline
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees import Sentence, TreeError
from fairseq_posattn.trees.checks import checked_tree

BYTE_ORDER_MARK = "\ufeff"
Given = Sequence[int] | Sentence | None  # by a program: parents of the words, or a whole sentence


class NewText:
    """Finds the pieces and the trees of new lines, by the task's options `cfg`."""

    def __init__(self, cfg: Any, pipeline: TextPipeline | None):
        self.cfg = cfg
        self.pipeline = pipeline
        self.began = False  # to read the lines of a file or a pipe

    @cached_property
    def provider(self) -> TreeProvider:
        """Where the trees come from."""
        return build_provider(self.cfg, self.pipeline)

    @cached_property
    def stanza(self) -> StanzaProvider:
        """The provider, or what tokenises for another one as the training data were."""
        if isinstance(self.provider, StanzaProvider):
            return self.provider
        return StanzaProvider(parser_settings(self.cfg, self.pipeline))

    def without_mark(self, lines: Sequence[str]) -> list[str]:
        """The lines of a file or a pipe, whose first one may begin with a byte order mark."""
        first, self.began = not self.began, True
        return [
            line.removeprefix(BYTE_ORDER_MARK) if first and k == 0 else line
            for k, line in enumerate(lines)
        ]

    def lines(
        self, raw: Sequence[str], encode: Callable[[str], str], trees: bool
    ) -> list[SegmentedLine]:
        """The raw lines, segmented; `trees` says whether their trees will be asked for."""
        tokenizer = self.tokenizer(trees)
        tokenize = tokenizer.words if tokenizer else None
        if self.pipeline is None:
            return lines_of_encoder(raw, encode, self.cfg.piece_separator, tokenize)
        return lines_of_pipeline(raw, self.pipeline, tokenize)

    def tokenizer(self, trees: bool) -> TreeProvider | None:
        """What knows the words of the lines, if they are needed."""
        if self.pipeline and self.pipeline.config.splits_parsers_words:
            return self.stanza
        return self.provider if trees else None

    def trees(self, lines: list[SegmentedLine], given: Sequence[Given] | None = None) -> NewTrees:
        """The trees of the lines, found now, or when a batch asks for them."""
        if given is not None:
            return self.at_once(lines, self.check_given(lines, given))
        if not self.provider.lazy:
            return self.at_once(lines, self.provider.parsed(lines))
        return NewTrees(lines, lambda asked: self.parse([lines[k] for k in asked]))

    def at_once(self, lines: list[SegmentedLine], parsed: Sequence[Sentence | None]) -> NewTrees:
        """The trees of lines that are all known already."""
        found = [self.or_flat(*pair) for pair in zip(lines, parsed, strict=True)]
        return NewTrees(lines, lambda asked: [found[k] for k in asked])

    def parse(self, lines: list[SegmentedLine]) -> list[Sentence]:
        """The trees of the lines, from the provider."""
        parsed = self.provider.parsed(lines)
        return [self.or_flat(*pair) for pair in zip(lines, parsed, strict=True)]

    def check_given(
        self, lines: list[SegmentedLine], given: Sequence[Given]
    ) -> list[Sentence | None]:
        """Trees handed over by a program: one for each sentence, and each a tree of its words."""
        if len(given) != len(lines):
            raise TreeError(f"{len(given)} trees for {len(lines)} sentences")
        return [self.check_one(*pair) for pair in zip(lines, given, strict=True)]

    def check_one(self, line: SegmentedLine, given: Given) -> Sentence | None:
        """The given tree of a line; bare parents are those of the words between spaces."""
        if given is None:
            return None
        tree = given if isinstance(given, Sentence) else Sentence(line.text.split(), given)
        if tree.parents is None:
            return None
        if len(tree.parents) != (words := len(tree.words)):
            raise TreeError(f"{len(tree.parents)} parents for the {words} words of '{line.text}'")
        where = f"the tree of '{line.text}'"
        parents = checked_tree(list(tree.parents), where, str(self.cfg.several_roots))
        return replace(tree, parents=parents)

    @property
    def takes_flat_trees(self) -> bool:
        """By --missing-tree, or because what is too long for the parser got them in training."""
        if str(self.cfg.missing_tree) == "flat":
            return True
        if self.pipeline is None or not isinstance(self.provider, StanzaProvider):
            return False
        return self.pipeline.config.parser.long_lines == "skip"

    def or_flat(self, line: SegmentedLine, parsed: Sentence | None) -> Sentence:
        """The tree of a line, or what stands in for it."""
        if parsed is not None:
            return parsed
        if self.takes_flat_trees:
            return flat(line)
        raise TreeError(
            f"no tree for the sentence '{line.text}': name a tree provider "
            f"(--tree-provider {'|'.join(PROVIDERS)}; conllu takes --tree-file FILE.conllu), "
            "or translate it with a flat tree: --missing-tree flat"
        )


def flat(line: SegmentedLine) -> Sentence:
    """The words of a line, each a child of the first."""
    return Sentence(line.tokens).flat()
