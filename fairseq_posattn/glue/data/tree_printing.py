"""Print the trees of translated sentences on standard output, for --print-tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fairseq_posattn.trees import Sentence
from fairseq_posattn.trees.drawing import drawn, number_of_words, words_by_counts, words_of_tree


def print_tree(number: int, words: Sequence[str], parents: Sequence[int]) -> None:
    """Print a tree, a line for each word: TREE-NUMBER, as fairseq prints S-NUMBER and H-NUMBER,
    then depth and word."""
    print("".join(f"TREE-{number}\t{line}\n" for line in drawn(words, parents)), end="")


def print_new_trees(sentences: Iterable[tuple[int, Sentence]]) -> None:
    """Print the trees of new text, with the words that the parser found."""
    for number, sentence in sentences:
        words = words_of_tree(sentence.tokens, sentence.words_of_token)
        print_tree(number, words, sentence.parents or [])


def print_read_trees(sample: dict, dictionary: Any, separator: str) -> None:
    """Print the trees of binarised data.

    These data store pieces only, so the words are rebuilt from them.
    """
    parents, counts = sample["net_input"]["source_tree"][:2].tolist()
    for k, number in enumerate(sample["id"].tolist()):
        tokens = sample["net_input"]["src_tokens"][k]
        pieces = dictionary.string(tokens[tokens != dictionary.pad()]).split()
        length = number_of_words(parents[k], counts[k])
        words = words_by_counts(pieces, counts[k][:length], separator)
        print_tree(number, words, parents[k][:length])
