"""Score a parser on trees that are known, in percent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fairseq_posattn.text.parsing.stanza_parser import StanzaParser
from fairseq_posattn.text.parsing.treebank import Tree
from fairseq_posattn.trees.sentence import Sentence


def scores_of(parser: StanzaParser, trees: Sequence[Tree], raw: bool) -> dict[str, float]:
    """Return the scores of tags and trees on the words of the treebank, and of the tokeniser.

    The relations are compared without their subtypes, as CoNLL 2018 does.
    raw: whether there is a tokeniser. It gets each sentence as a line.
    """
    gold = [tree.sentence for tree in trees]
    right: Counter[str] = Counter()
    for one, found in zip(gold, parser.parse_words(gold), strict=True):
        for known, guessed in zip(facts(one), facts(found), strict=True):
            right["upos"] += known[0] == guessed[0]
            right["uas"] += known[1] == guessed[1]
            right["las"] += known[1:] == guessed[1:]
    words = sum(len(one.words) for one in gold)
    scores = {name: percent(right[name], words) for name in ("upos", "uas", "las")}
    if raw:
        found_tokens = parser.tokenize([tree.text for tree in trees])
        scores["token_f1"] = f1(gold, found_tokens, words_too=False)
        scores["word_f1"] = f1(gold, found_tokens, words_too=True)
    return scores


def facts(sentence: Sentence) -> list[tuple[str, int, str]]:
    """Return the part of speech, the parent and the relation of each word."""
    assert sentence.tags and sentence.parents and sentence.relations
    relations = [name.partition(":")[0] for name in sentence.relations]
    tags = [tag.upos for tag in sentence.tags]
    return list(zip(tags, sentence.parents, relations, strict=True))


def f1(gold: Sequence[Sentence], found: Sequence[Sentence], words_too: bool) -> float:
    """Return the F1 of the tokens, or of the words of tokens that are split into the same ones."""
    kinds = [
        Counter(piece for k, one in enumerate(some) for piece in pieces(k, one, words_too))
        for some in (gold, found)
    ]
    return percent(2 * (kinds[0] & kinds[1]).total(), kinds[0].total() + kinds[1].total())


def pieces(k: int, sentence: Sentence, words_too: bool) -> list[tuple]:
    """Return where each token of the k-th sentence lies, or each of its words."""
    found: list[tuple] = []
    end = first = 0
    for form, count in sentence.counted_tokens():
        begin, end = end, end + len("".join(form.split()))
        words = tuple(sentence.words[first : first + count])
        found += (
            [(k, begin, end, words, n) for n in range(count)] if words_too else [(k, begin, end)]
        )
        first += count
    return found


def percent(part: int, whole: int) -> float:
    """Return a share with two decimals."""
    return round(100 * part / whole, 2)
