"""Make new training examples by exchanging noun phrases, together with their parts of the forms.

In the training set, some noun phrases, such as subjects, have no modifiers. In the new examples,
phrases with modifiers take their place (compare Jia and Liang 2016). A phrase is exchanged only if
no name outside its part of the form denotes one of its words; question words are not exchanged.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from alignments import VERBS, aligned, children
from forms import ARTICLES, Node, read_form, read_node, tree_of

from fairseq_posattn.errors import InputError

MOST_WORDS, MOST_EXCHANGES = 20, 2
PATIENCE = 1000  # failures in a row

Example = tuple[list[str], list[str]]  # the words of a sentence, and of its form


class Phrase(NamedTuple):
    """A noun phrase. start, end: its words. first, last: its part of the form."""

    start: int
    end: int
    first: int
    last: int


def recombined(examples: Sequence[Example], count: int, seed: int = 1) -> Iterator[Example]:
    """Yield `count` examples with new sentences, or fewer if no more are found."""
    draw = random.Random(seed)
    pool = {
        (tuple(inside(words[one.start : one.end])), tuple(form[one.first : one.last]))
        for words, form in examples
        for one in phrases(words, form)
    }
    choices = sorted(pool)
    seen = {tuple(words) for words, _ in examples}
    failures = 0
    while count and failures < PATIENCE:
        failures += 1
        words, form = draw.choice(examples)
        for _ in range(draw.randint(1, MOST_EXCHANGES)):
            if sites := phrases(words, form):
                words, form = exchanged(words, form, draw.choice(sites), *draw.choice(choices))
        if len(words) <= MOST_WORDS and tuple(words) not in seen and matches(words, form):
            seen.add(tuple(words))
            count, failures = count - 1, 0
            yield words, form


def phrases(words: Sequence[str], form: Sequence[str]) -> list[Phrase]:
    """Return the noun phrases that can be exchanged."""
    root = read_form(" ".join(form))
    tree = tree_of(" ".join(words), " ".join(form))
    _, parents, labels = zip(*tree, strict=True)
    pairs = aligned(words, parents, labels, root)
    found = []
    for node in nouns(root):
        first = node.place - node.definite
        last = read_node([*form], first)[1]
        own = below(parents, labels, pairs[node.place])
        named = [at for at, word in pairs.items() if word in own]
        whole = own == [*range(own[0], own[-1] + 1)]
        if whole and sorted(named) == [at for at in sorted(pairs) if first <= at < last]:
            found.append(Phrase(own[0], own[-1] + 1, first, last))
    return found


def nouns(node: Node) -> Iterator[Node]:
    """Yield the nouns below a node, except question words."""
    for role, child in node.edges:
        if role not in VERBS and child.name != "?":
            yield child
        yield from nouns(child)


def below(parents: Sequence[int], labels: Sequence[str], top: int) -> list[int]:
    """Return the positions of a word and of all words below it, without its preposition."""
    found = [top]
    for word in found:
        found += [k for k in children(parents, word) if word != top or labels[k] != "case"]
    return sorted(found)


def inside(words: Sequence[str]) -> list[str]:
    """Return a phrase as it is written inside a sentence."""
    article = words[0].lower()
    return [article if article in ARTICLES else words[0], *words[1:]]


def exchanged(
    words: Sequence[str], form: Sequence[str], site: Phrase, new: Sequence[str], part: Sequence[str]
) -> Example:
    """Return an example in which a phrase, with its part of a form, replaces the one at `site`."""
    if site.start == 0:
        new = [new[0][0].upper() + new[0][1:], *new[1:]]
    return (
        [*words[: site.start], *new, *words[site.end :]],
        [*form[: site.first], *part, *form[site.last :]],
    )


def matches(words: Sequence[str], form: Sequence[str]) -> bool:
    """Return whether the sentence can be parsed, guided by its form."""
    try:
        tree_of(" ".join(words), " ".join(form))
    except InputError:
        return False
    return True
