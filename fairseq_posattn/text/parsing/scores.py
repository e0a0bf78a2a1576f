"""Evaluate a parser on gold trees with the CoNLL 2018 scorer; all scores are in percent."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from fairseq_posattn.text.parsing.stanza_parser import StanzaParser
from fairseq_posattn.text.parsing.treebank import Tree
from fairseq_posattn.trees.conllu import block
from fairseq_posattn.trees.sentence import Sentence

TREES = {"upos": "UPOS", "uas": "UAS", "las": "LAS"}
TEXT = {"token_f1": "Tokens", "word_f1": "Words"}


def scores_of(parser: StanzaParser, trees: Sequence[Tree], raw: bool) -> dict[str, float]:
    """Return UPOS, UAS and LAS on gold words and, if `raw`, the F1 scores of the tokeniser.

    raw: whether to evaluate the parser's tokeniser on the text of each sentence.
    """
    gold = [tree.sentence for tree in trees]
    scores = chosen(TREES, gold, parser.parse_words(gold))
    if raw:
        scores |= chosen(TEXT, gold, parser.parse([tree.text for tree in trees]))
    return scores


def chosen(
    names: dict[str, str], gold: Sequence[Sentence], found: Sequence[Sentence]
) -> dict[str, float]:
    from udtools import udeval  # a dependency of stanza

    def read(sentences: Sequence[Sentence]) -> Any:
        text = "".join(block("", one, number) for number, one in enumerate(sentences, 1))
        return udeval.load_conllu(io.StringIO(text), "", {})

    evaluation = udeval.evaluate(read(gold), read(found))
    return {name: round(100 * evaluation[key].f1, 2) for name, key in names.items()}
