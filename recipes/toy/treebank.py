"""Write the toy treebank: sentences of an artificial language with gold trees and translations.

    python recipes/toy/treebank.py OUT --seed 1 --train 8000 --dev 600 --test 800

For each split, the program writes SPLIT.src.conllu (source trees), SPLIT.tgt (translations, one per
line) and SPLIT.kinds (unambiguous, ambiguous or tie; ties are a special case of ambiguous).

The grammar of the source, where a noun phrase NP is DET ADJ? NOUN (PRON VERB NP?)?:

    PP* NP VERB NP? PP*          PP = ADP ADJ? NOUN, at most two per sentence

Each preposition allows two of these parents for its phrase: verb, subject, object. Both
are equally probable, and only the tree shows which one is right. A sentence has only one kind of
ambiguity: either between verb and noun, where the depth of the phrase differs, or between subject
and object (`tie`), where each word has the same depth in all trees.
In dev and test, each string occurs once with each of its trees.

In the target, parents follow their children (except PRON), so the verb is last. Prepositions
become postpositions, followed by a particle for the parent of the phrase.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, islice, product
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import written_whole

ROOT = -1
UNAMBIGUOUS, AMBIGUOUS, TIE = "unambiguous", "ambiguous", "tie"
VERB, SUBJECT, OBJECT = "verb", "subject", "object"

# The possible parents of a phrase, by kind of sentence.
CANDIDATES = {AMBIGUOUS: [(VERB, SUBJECT), (VERB, OBJECT)], TIE: [(SUBJECT, OBJECT)]}
# (kind, number of ambiguous phrases) -> share of a split; the other sentences are unambiguous.
SHARES = {(AMBIGUOUS, 1): 0.26, (AMBIGUOUS, 2): 0.01, (TIE, 1): 0.27, (TIE, 2): 0.01}

ADJECTIVE_PROBABILITY = 0.25
RELATIVE_CLAUSE_PROBABILITY = 0.15
RELATIVE_OBJECT_PROBABILITY = 0.25
INTRANSITIVE_PROBABILITY = 0.1


class Tree(NamedTuple):
    """A sentence with one of its trees; parents count from 0, and that of the verb is ROOT."""

    forms: tuple[str, ...]
    parents: tuple[int, ...]


class Entry(NamedTuple):
    """The dictionary entry of a source form. sites: the possible parents of a preposition."""

    lemma: str
    upos: str
    target: str
    sites: tuple[str, ...] = ()


# upos -> number of stems
STEMS = {"NOUN": 60, "VERB": 30, "ADJ": 20}
# word class (upos, or upos.SUBCLASS) -> (source suffix, target suffix, weight)
INFLECTIONS = {
    "NOUN": [("o", "u", 12), ("oni", "umak", 5), ("isko", "ellu", 2), ("iskoni", "ellumak", 1)],
    "VERB": [("at", "em", 3), ("udat", "arem", 2)],
    "VERB.relative": [("aten", "emi", 3), ("udaten", "aremi", 2)],
    "ADJ": [("ie", "os", 4), ("ierre", "ossen", 1)],
}
FUNCTION_WORDS = [
    ("DET", "la", "ha"),
    ("DET", "un", "wi"),
    ("DET", "tse", "hoy"),
    ("PRON", "qe", "wa"),
]
PREPOSITIONS_PER_CANDIDATES = 3
PARTICLES = {VERB: "ya", SUBJECT: "wo", OBJECT: "hu"}
SOURCE_SOUNDS = ("ptkbdgmnlrsz", "aeiou")
TARGET_SOUNDS = ("chjfvgnrlktd", "aeouy")
RARITY_OFFSET = 5  # a stem of rank r has the weight 1 / (r + offset)


DICTIONARY: dict[str, Entry] = {}
WORD_CLASSES: dict[object, tuple[list[str], list[float]]] = {}  # class -> forms and their weights


def define(word_class: object, form: str, entry: Entry, weight: float = 1.0) -> None:
    """Add a form to the dictionary and to its word class."""
    DICTIONARY[form] = entry
    forms, weights = WORD_CLASSES.setdefault(word_class, ([], []))
    forms.append(form)
    weights.append(weight)


def draw_stems(rng: random.Random, sounds: tuple[str, str]) -> Iterator[str]:
    """Yield an infinite sequence of distinct stems of alternating consonants and vowels."""
    seen = set()
    while True:
        stem = "".join(rng.choice(sounds[place % 2]) for place in range(rng.choice((3, 5))))
        if stem not in seen:
            seen.add(stem)
            yield stem


def fill_lexicon(rng: random.Random) -> None:
    """Fill the dictionary and the word classes."""
    pairs = zip(draw_stems(rng, SOURCE_SOUNDS), draw_stems(rng, TARGET_SOUNDS), strict=True)
    stems = {tag: list(islice(pairs, count)) for tag, count in STEMS.items()}
    for word_class, inflections in INFLECTIONS.items():
        tag = word_class.split(".")[0]
        for rank, (stem, target) in enumerate(stems[tag]):
            for suffix, target_suffix, weight in inflections:
                entry = Entry(stem, tag, target + target_suffix)
                define(word_class, stem + suffix, entry, weight / (rank + RARITY_OFFSET))
    for tag, form, target in FUNCTION_WORDS:
        define(tag, form, Entry(form, tag, target))
    for sites in chain(*CANDIDATES.values()):
        for form, target in islice(pairs, PREPOSITIONS_PER_CANDIDATES):
            define(sites, form, Entry(form, "ADP", target, sites))


fill_lexicon(random.Random("lexicon"))  # the seed of the sentences does not change the language


def entry_of(tree: Tree, word: int) -> Entry:
    return DICTIONARY[tree.forms[word]]


def upos(tree: Tree, word: int) -> str:
    return entry_of(tree, word).upos


def children(tree: Tree, parent: int) -> list[int]:
    return [word for word, its_parent in enumerate(tree.parents) if its_parent == parent]


def attachment_sites(tree: Tree) -> dict[str, int]:
    """Return the possible parents of prepositional phrases: verb, subject and object, if any."""
    verb = tree.parents.index(ROOT)
    nouns = [word for word in children(tree, verb) if upos(tree, word) == "NOUN"]
    return {VERB: verb, **dict(zip((SUBJECT, OBJECT), nouns, strict=False))}


def prepositions(tree: Tree) -> list[int]:
    return [word for word in range(len(tree.forms)) if upos(tree, word) == "ADP"]


def readings(tree: Tree) -> list[Tree]:
    """Return all trees of a string, in an order that does not depend on the given tree."""
    words, places = prepositions(tree), attachment_sites(tree)
    candidates = [[places[site] for site in entry_of(tree, word).sites] for word in words]
    result = []
    for sites in product(*candidates):
        site_of = dict(zip(words, sites, strict=True))
        parents = (site_of.get(word, parent) for word, parent in enumerate(tree.parents))
        result.append(Tree(tree.forms, tuple(parents)))
    return result


def kind_of(tree: Tree) -> str:
    words = prepositions(tree)
    if not words:
        return UNAMBIGUOUS
    return TIE if entry_of(tree, words[0]).sites in CANDIDATES[TIE] else AMBIGUOUS


def combine(parts: list[Tree], top: int) -> Tree:
    """Concatenate the parts; the root of parts[top] becomes the parent of the other roots."""
    starts = [0, *accumulate(len(part.forms) for part in parts)]
    root = starts[top] + parts[top].parents.index(ROOT)
    forms, parents = [], []
    for index, part in enumerate(parts):
        above = ROOT if index == top else root
        forms += part.forms
        parents += [above if parent == ROOT else starts[index] + parent for parent in part.parents]
    return Tree(tuple(forms), tuple(parents))


def draw_leaf(rng: random.Random, word_class: object) -> Tree:
    return Tree(tuple(rng.choices(*WORD_CLASSES[word_class])), (ROOT,))


def draw_adjectives(rng: random.Random) -> list[Tree]:
    """Draw one adjective or none."""
    return [draw_leaf(rng, "ADJ")] if rng.random() < ADJECTIVE_PROBABILITY else []


def draw_noun_phrase(rng: random.Random, relative_clause: bool) -> Tree:
    """Draw a noun phrase, with or without a relative clause."""
    before = [draw_leaf(rng, "DET"), *draw_adjectives(rng)]
    after = [draw_relative_clause(rng)] if relative_clause else []
    return combine([*before, draw_leaf(rng, "NOUN"), *after], top=len(before))


def draw_relative_clause(rng: random.Random) -> Tree:
    parts = [draw_leaf(rng, "PRON"), draw_leaf(rng, "VERB.relative")]
    if rng.random() < RELATIVE_OBJECT_PROBABILITY:
        parts.append(draw_noun_phrase(rng, relative_clause=False))
    return combine(parts, top=1)


def draw_prepositional_phrase(rng: random.Random, sites: tuple[str, ...]) -> Tree:
    """Draw a prepositional phrase whose preposition allows these parents."""
    complement = [*draw_adjectives(rng), draw_leaf(rng, "NOUN")]
    return combine([draw_leaf(rng, sites), combine(complement, top=len(complement) - 1)], top=0)


def draw_string(rng: random.Random, kind: str, phrases: int) -> Tree:
    """Draw a sentence in which the verb is the parent of all prepositional phrases."""
    chosen = [rng.choice(CANDIDATES[kind]) for _ in range(phrases)]
    needs_object = any(OBJECT in sites for sites in chosen)
    transitive = needs_object or rng.random() >= INTRANSITIVE_PROBABILITY
    first, last = [], []
    for sites in chosen:
        rng.choice((first, last)).append(draw_prepositional_phrase(rng, sites))
    subject, *objects = (
        draw_noun_phrase(rng, rng.random() < RELATIVE_CLAUSE_PROBABILITY)
        for _ in range(1 + transitive)
    )
    parts = [*first, subject, draw_leaf(rng, "VERB"), *objects, *last]
    return combine(parts, top=len(first) + 1)


def translate(tree: Tree) -> list[str]:
    return translate_below(tree, tree.parents.index(ROOT))


def translate_below(tree: Tree, parent: int) -> list[str]:
    """Return the translation of a word and its descendants."""

    def dependents(*tags: str) -> list[str]:
        """Translate the children in the order of `tags`, then in source order."""
        below = [w for tag in tags for w in children(tree, parent) if upos(tree, w) == tag]
        return [form for word in below for form in translate_below(tree, word)]

    before = dependents("NOUN", "ADP", "VERB", "DET", "ADJ")
    after = [*dependents("PRON"), *particles(tree, parent)]
    return [*before, entry_of(tree, parent).target, *after]


def particles(tree: Tree, word: int) -> list[str]:
    """Return the particle of a preposition's parent, or nothing for other words."""
    if upos(tree, word) != "ADP":
        return []
    places = attachment_sites(tree)
    return [PARTICLES[site] for site in places if places[site] == tree.parents[word]]


def draw_distinct(rng: random.Random, kind: str, phrases: int, seen: set) -> Tree:
    """Draw a string that is not in `seen` and whose trees have distinct translations."""
    while True:
        tree = draw_string(rng, kind, phrases)
        translations = {tuple(translate(reading)) for reading in readings(tree)}
        if tree.forms not in seen and len(translations) == 2**phrases:
            seen.add(tree.forms)
            return tree


def draw_split(rng: random.Random, size: int, every_reading: bool, seen: set) -> list[Tree]:
    """Draw the sentences of a split, with one random tree or with all trees of each string."""
    trees: list[Tree] = []
    for (kind, phrases), share in SHARES.items():
        of_one_string = 2**phrases if every_reading else 1
        for _ in range(round(size * share) // of_one_string):
            of_string = readings(draw_distinct(rng, kind, phrases, seen))
            trees += of_string if every_reading else [rng.choice(of_string)]
    trees += [draw_distinct(rng, UNAMBIGUOUS, 0, seen) for _ in range(size - len(trees))]
    rng.shuffle(trees)
    return trees


def draw_treebank(seed: int, train: int, dev: int, test: int) -> dict[str, list[Tree]]:
    """Draw all splits, which share no string."""
    rng, seen = random.Random(seed), set()
    sizes = {"test": test, "dev": dev, "train": train}
    return {split: draw_split(rng, sizes[split], split != "train", seen) for split in sizes}


def relation_name(tree: Tree, word: int) -> str:
    """Return the relation of a word as in Surface-Syntactic Universal Dependencies, where a
    preposition is the parent of its noun."""
    tag, parent = upos(tree, word), tree.parents[word]
    if parent == ROOT:
        return "root"
    if tag == "NOUN":
        return "subj" if word < parent else "comp:obj"
    return {"DET": "det", "ADJ": "mod", "VERB": "mod", "PRON": "subj", "ADP": "udep"}[tag]


def conllu(tree: Tree, name: str) -> str:
    lines = [f"# sent_id = {name}", f"# text = {' '.join(tree.forms)}"]
    for word, parent in enumerate(tree.parents):
        lemma, tag = entry_of(tree, word)[:2]
        columns = word + 1, tree.forms[word], lemma, tag, "_", "_", parent + 1
        lines.append("\t".join(map(str, (*columns, relation_name(tree, word), "_", "_"))))
    return "\n".join(lines) + "\n"


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with written_whole(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def write_split(out: Path, split: str, trees: list[Tree]) -> None:
    """Write the sources, translations and kinds of a split."""
    sources = (conllu(tree, f"{split}-{number}") for number, tree in enumerate(trees, 1))
    write_lines(out / f"{split}.src.conllu", sources)
    write_lines(out / f"{split}.tgt", (" ".join(translate(tree)) for tree in trees))
    write_lines(out / f"{split}.kinds", map(kind_of, trees))


def main(arguments: list[str] | None = None) -> None:
    """Draw the treebank and write its files."""
    summary, details = __doc__.split("\n", 1)
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "out", type=Path, help="folder for the files, which is created if it does not exist"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="random seed for the sentences, not for the vocabulary (default: %(default)s)",
    )
    for split, size in (("train", 8000), ("dev", 600), ("test", 800)):
        parser.add_argument(
            f"--{split}",
            type=int,
            default=size,
            help=f"number of sentences in {split} (default: {size})",
        )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    treebank = draw_treebank(options.seed, options.train, options.dev, options.test)
    for split, trees in treebank.items():
        write_split(options.out, split, trees)


if __name__ == "__main__":
    command_line.run(main)
