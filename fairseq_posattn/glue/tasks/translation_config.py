"""Define the options of the task structured_translation."""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig

from fairseq_posattn.core.option_values import option
from fairseq_posattn.trees.checks import SEVERAL_ROOTS
from fairseq_posattn.trees.projection import SEPARATOR


@dataclass
class StructuredTranslationConfig(TranslationConfig):
    """These are the options of the task structured_translation."""

    tree_provider: Optional[str] = option(
        None,
        "choose where the trees of new text come from: conllu, stanza, none, or a "
        "provider of your own; the default is conllu with --tree-file, else stanza if "
        "posattn prepare parsed the data with it, else none",
    )
    tree_file: Optional[str] = option(
        None, "read trees from this CoNLL-U file: the k-th line of new text gets tree k"
    )
    tree_control: Optional[str] = option(
        None,
        "give sentences of new text these control trees instead of their own, such as "
        "chain, shuffled or own-flip0.25-seed2; the default is the control of the data",
    )
    labels_of: Optional[str] = option(
        None,
        "number the labels of words as the data in this folder do, on which the model was trained; "
        "needed where it translates data of other trees",
    )
    missing_tree: ChoiceEnum(["error", "flat"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "error",
        "stop at a sentence without a tree (error), or translate it with a tree in "
        "which each word is a child of the first one (flat)",
    )
    several_roots: ChoiceEnum(list(SEVERAL_ROOTS)) = option(  # type: ignore[valid-type]  # fairseq calls it
        "error",
        "stop at a tree of new text with several roots (error), or make the other "
        "roots children of the first (first)",
    )
    piece_separator: str = option(
        SEPARATOR,
        "name the mark at the end of each piece that is not the last of its word; "
        "\u2581 means that the pieces are those of sentencepiece",
    )
    parser_lang: Optional[str] = option(
        None,
        "parse new text as this language with stanza; the default is the language that "
        "the data were parsed as, or the source language",
    )
    parser_dir: Optional[str] = option(
        None, "read stanza's models from this folder; the default is the one of the data"
    )
    parser_tokenized: bool = option(
        False, "take the words of new text between spaces; do not let stanza tokenise it"
    )
    int8: bool = option(
        False,
        "translate on a CPU with the weights of linear layers in eight bits, which is faster and "
        "changes scores a little",
    )
    print_tree: bool = option(
        False,
        "print the tree of each translated sentence, a line for each word: "
        "TREE-NUMBER, depth, word",
    )
