"""Segment new text, and determine its trees when a batch needs them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from fairseq_posattn.text.live.line_trees import NewTrees, WantedLabels
from fairseq_posattn.text.live.providers import (
    StanzaProvider,
    TreeProvider,
    parser_settings,
    provider_class,
    trees_of,
)
from fairseq_posattn.text.live.segmented import (
    SegmentedLine,
    lines_of_encoder,
    lines_of_pipeline,
    with_words,
)
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees import Sentence, TreeError
from fairseq_posattn.trees.checks import checked_tree
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.sentence import KINDS, NO_TAGS, UNKNOWN, mended

Given = Sequence[int] | Sentence | None  # a tree from a program: parents, or a sentence


class NewText:
    """Provides the pieces and trees of new lines; `cfg` contains the options of the task."""

    def __init__(self, cfg: Any, pipeline: TextPipeline | None):
        self.cfg = cfg
        self.pipeline = pipeline

    @cached_property
    def provider(self) -> TreeProvider:
        return provider_class(self.cfg, self.pipeline).from_options(self.cfg, self.pipeline)

    @cached_property
    def stanza(self) -> StanzaProvider:
        """The provider if it uses stanza; otherwise a stanza provider for tokenisation.

        It tokenises lines in the same way as the training data.
        """
        if isinstance(self.provider, StanzaProvider):
            return self.provider
        return StanzaProvider(parser_settings(self.cfg, self.pipeline))

    def lines(
        self, raw: Sequence[str], encode: Callable[[str], str], trees: bool
    ) -> list[SegmentedLine]:
        """Segment raw lines.

        trees: whether the trees of the lines will be requested.
        """
        provider = self.tokenizer(trees)
        tokenize = provider.words if provider else None
        if self.pipeline is None:
            return lines_of_encoder(raw, encode, self.cfg.piece_separator, tokenize)
        return lines_of_pipeline(raw, self.pipeline, tokenize)

    def tokenizer(self, trees: bool) -> TreeProvider | None:
        """Return the provider that tokenises the lines when they are read, or None.

        If None, a lazy provider tokenises a batch when its trees are requested.
        """
        if self.pipeline and self.pipeline.config.splits_parsers_words:
            return self.stanza
        return self.provider if trees and not self.provider.lazy else None

    def trees(
        self,
        lines: list[SegmentedLine],
        given: Sequence[Given] | None = None,
        labels: WantedLabels | None = None,
    ) -> NewTrees:
        """Return the trees of the lines; a lazy provider determines them when a batch needs them.

        given: trees passed by a program.
        """
        if given is None and self.provider.lazy:
            return NewTrees(
                lines, lambda asked: self.parse([lines[k] for k in asked], labels), labels
            )
        if given is None:
            found = self.parse(lines, labels)
        else:
            found = self.controlled(lines, self.check_given(lines, given))
        return NewTrees(lines, lambda asked: [found[k] for k in asked], labels)

    @cached_property
    def control(self) -> TreeControl:
        """The control trees selected by --tree-control, or else those of the data."""
        if self.cfg.tree_control:
            return TreeControl.from_tag(self.cfg.tree_control)
        return self.pipeline.config.control if self.pipeline else TreeControl()

    def parse(
        self, lines: list[SegmentedLine], labels: WantedLabels | None = None
    ) -> list[Sentence]:
        """Return the trees of the lines, after applying the tree control.

        The provider is called only if the control or a model needs its trees or parts of speech, or
        if there is a --tree-file, which must match the lines.
        """
        if self.provider.lazy:
            lines = self.with_words(lines)
        asked_for_tags = labels is not None and "tags" in labels.kinds
        if self.control.needs_trees or self.cfg.tree_file or asked_for_tags:
            return self.controlled(lines, trees_of(self.provider, lines))
        return self.controlled(lines, [line.words for line in self.with_words(lines)])

    def controlled(
        self, lines: list[SegmentedLine], own: Sequence[Sentence | None]
    ) -> list[Sentence]:
        """Apply the control to the original trees of lines, and return the resulting trees."""
        if self.control.needs_trees:
            found = [self.or_flat(*pair) for pair in zip(lines, own, strict=True)]
        else:
            pairs = zip(lines, own, strict=True)
            found = [sentence or Sentence(line.tokens) for line, sentence in pairs]
        trees = [self.control.of(sentence) for sentence in found]
        return list(map(with_unknown_labels, trees)) if self.takes_flat_trees else trees

    def with_words(self, lines: list[SegmentedLine]) -> list[SegmentedLine]:
        """Return the lines with their words; if any lacks words, tokenise all of them."""
        if all(line.words is not None for line in lines):
            return lines
        return with_words(lines, getattr(self.provider, "words", None))  # as in `lines`

    def check_given(
        self, lines: list[SegmentedLine], given: Sequence[Given]
    ) -> list[Sentence | None]:
        """Check trees passed by a program; raise a TreeError if they do not match the lines."""
        if len(given) != len(lines):
            raise TreeError(
                f"got {len(given)} trees for {len(lines)} sentences; give one tree per sentence"
            )
        return [self.check_one(*pair) for pair in zip(lines, given, strict=True)]

    def check_one(self, line: SegmentedLine, given: Given) -> Sentence | None:
        """Check the tree of a line and return it, or None if the line has no tree.

        If only parents are given, the words are those of `line.text`, split at spaces.
        """
        if given is None:
            return None
        tree = given if isinstance(given, Sentence) else Sentence(line.text.split(), given)
        if tree.parents is None:
            return None
        if len(tree.parents) != (words := len(tree.words)):
            raise TreeError(
                f"got {len(tree.parents)} parents for the {words} words of '{line.text}'; give one "
                "parent per word"
            )
        where = f"the tree of '{line.text}'"
        for kind in KINDS:
            if (found := getattr(tree, kind)) is not None:
                check_labels(found, kind, words, where)
        parents = checked_tree(list(tree.parents), where, str(self.cfg.several_roots))
        relations = tree.relations and mended(tree.relations, tree.parents, parents)
        return replace(tree, parents=parents, relations=relations)

    @property
    def takes_flat_trees(self) -> bool:
        """Whether a line without a tree gets a flat tree.

        This is the case with --missing-tree flat, or if stanza parses the lines and long lines of
        the training data were skipped.
        """
        if str(self.cfg.missing_tree) == "flat":
            return True
        if self.pipeline is None or not isinstance(self.provider, StanzaProvider):
            return False
        return self.pipeline.config.parser.long_lines == "skip"

    def or_flat(self, line: SegmentedLine, parsed: Sentence | None) -> Sentence:
        """Return the tree of a line, or a flat tree if the line has none.

        Raises TreeError if the line has no tree and flat trees are not allowed.
        """
        if parsed is not None:
            return parsed
        if self.takes_flat_trees:
            return flat(line)
        raise TreeError(
            f"the sentence '{line.text}' has no tree; choose a tree provider "
            "(--tree-provider stanza, or conllu with a --tree-file that contains its tree), "
            "or translate it with a flat tree (--missing-tree flat)"
        )


def check_labels(labels: Sequence[Any], kind: str, words: int, where: str) -> None:
    """Raise a TreeError unless labels from a program contain one string or `Tags` per word."""
    if isinstance(labels, str) or len(labels) != words:
        found = f"the text '{labels}' as" if isinstance(labels, str) else str(len(labels))
        raise TreeError(f"{where} has {found} {kind} for {words} words; give one per word")
    for label in labels:
        text = getattr(label, "upos", None) if kind == "tags" else label
        if not isinstance(text, str):
            raise TreeError(
                f"{where} has {label!r} among its {kind}; give strings in Parsed(..., "
                f"{kind}=[...]), with '{UNKNOWN}' for unknown ones"
            )


def with_unknown_labels(sentence: Sentence) -> Sentence:
    """Replace missing labels by the unknown label."""
    words = len(sentence.words)
    return replace(
        sentence,
        relations=sentence.relations or [UNKNOWN] * words,
        tags=sentence.tags or [NO_TAGS] * words,
    )


def flat(line: SegmentedLine) -> Sentence:
    """Return a flat tree, in which each word except the first is a child of the first word."""
    return Sentence(line.tokens).flat()
