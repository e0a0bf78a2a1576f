"""Dependency trees as text: CoNLL-U, the files of the preparation, words split into pieces.

A tree is a list of parents, one for each word, counted from 1 as in CoNLL-U; the root's is 0.
"""

from fairseq_posattn.trees.checks import TreeError, flat_tree, tree_fault, with_one_root
from fairseq_posattn.trees.conllu import Sentence, read_conllu
from fairseq_posattn.trees.forms import plain_form
from fairseq_posattn.trees.projection import Parsed, project, words_of_pieces

__all__ = [
    "Parsed",
    "Sentence",
    "TreeError",
    "flat_tree",
    "plain_form",
    "project",
    "read_conllu",
    "tree_fault",
    "with_one_root",
    "words_of_pieces",
]
