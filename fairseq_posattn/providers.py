"""Tree providers: where the trees of new sentences come from.

A provider gets the words of sentences and gives their parents, counted from 1 with 0 for the root,
or None for a sentence without a tree. A parser that runs live is one more entry of PROVIDERS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairseq_posattn.trees import Sentence, TreeError, plain_form, read_conllu


class TreeProvider(Protocol):
    @classmethod
    def from_options(cls, cfg) -> TreeProvider:
        """The provider as the options of the task describe it."""

    def parents(self, sentences: Sequence[Sequence[str]]) -> list[list[int] | None]:
        """The parents of each sentence, in order; sentences are asked for once each."""


class NoProvider:
    """Has no tree for any sentence."""

    @classmethod
    def from_options(cls, cfg) -> NoProvider:
        if cfg.tree_file:
            raise TreeError(f"--tree-provider none leaves no use for --tree-file {cfg.tree_file}")
        return cls()

    def parents(self, sentences: Sequence[Sequence[str]]) -> list[list[int] | None]:
        return [None] * len(sentences)


class ConlluProvider:
    """The k-th sentence asked for takes the k-th tree of a CoNLL-U file."""

    def __init__(self, path: str, several_roots: str = "error"):
        self.path = path
        self.trees = read_conllu(path, several_roots)
        self.asked = 0

    @classmethod
    def from_options(cls, cfg) -> ConlluProvider:
        if not cfg.tree_file:
            raise TreeError("--tree-provider conllu: name the trees with --tree-file FILE.conllu")
        return cls(cfg.tree_file, str(cfg.several_roots))

    def parents(self, sentences: Sequence[Sequence[str]]) -> list[list[int] | None]:
        return [self.next_tree(words) for words in sentences]

    def next_tree(self, words: Sequence[str]) -> list[int] | None:
        self.asked += 1
        sentence = next(self.trees, None)
        if sentence is None:
            return None
        self.check(words, sentence)
        return sentence.parents

    def check(self, words: Sequence[str], sentence: Sentence) -> None:
        if [plain_form(word) for word in words] != sentence.words:
            raise TreeError(
                f"{self.path}:{sentence.line}: the words of input line {self.asked} are not those "
                f"of tree {self.asked}: the line has '{' '.join(words)}', "
                f"the tree '{' '.join(sentence.words)}'"
            )


PROVIDERS = {"conllu": ConlluProvider, "none": NoProvider}


def build_provider(cfg) -> TreeProvider:
    """The provider that the task's options name; by default conllu where there is a tree file."""
    name = cfg.tree_provider or ("conllu" if cfg.tree_file else "none")
    return PROVIDERS[str(name)].from_options(cfg)
