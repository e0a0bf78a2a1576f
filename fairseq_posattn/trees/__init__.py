"""Read, validate and store dependency trees, and project them from words to pieces.

A tree is a list that contains the parent of each word. Words are numbered from 1, as in CoNLL-U,
and the parent of the root is 0.

    for sentence in read_conllu("train.conllu"):
        print(sentence.words, sentence.parents)
"""

from fairseq_posattn.trees.checks import TreeError, flat_tree, tree_fault, with_one_root
from fairseq_posattn.trees.conllu import read_conllu
from fairseq_posattn.trees.projection import project, words_of_pieces
from fairseq_posattn.trees.sentence import Sentence, escape_whitespace
from fairseq_posattn.trees.sentence import of_tokens as Parsed  # its public name

__all__ = [
    "Parsed",
    "Sentence",
    "TreeError",
    "escape_whitespace",
    "flat_tree",
    "project",
    "read_conllu",
    "tree_fault",
    "with_one_root",
    "words_of_pieces",
]
