"""recipes/toy/treebank.py keeps the promises on which the numbers of the toy recipe rest."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import combinations

import pytest

from support.commands import ROOT, script

SCRIPT = ROOT / "recipes/toy/treebank.py"
SPLITS = ("train", "dev", "test")


toy = script(SCRIPT)


@pytest.fixture(scope="module")
def treebank():
    return toy.draw_treebank(seed=1, train=8000, dev=600, test=800)


@pytest.fixture(scope="module", params=["dev", "test"])
def held_out(treebank, request):
    return treebank[request.param]


@pytest.fixture(scope="module")
def attachments(treebank):
    """Return (tree, preposition, two candidates, 0 or 1) of each phrase of the training data."""
    return [attachment(tree, word) for tree in treebank["train"] for word in toy.prepositions(tree)]


def attachment(tree, word):
    places = toy.attachment_sites(tree)
    sites = toy.DICTIONARY[tree.forms[word]].sites
    return tree, word, sites, [places[site] for site in sites].index(tree.parents[word])


def depths(tree):
    def depth(word):
        return 0 if tree.parents[word] == toy.ROOT else 1 + depth(tree.parents[word])

    return [depth(word) for word in range(len(tree.forms))]


def relation(tree, i, j):
    """Return what rules 1 and 2 of the paper give, one word a piece."""
    depth = depths(tree)
    if tree.parents[i] == j or tree.parents[j] == i:
        return depth[i] - depth[j]
    return ((i > j) - (i < j)) * (depth[i] + depth[j])


def relations(tree):
    words = range(len(tree.forms))
    return [[relation(tree, i, j) for j in words] for i in words]


def by_string(trees):
    groups = defaultdict(list)
    for tree in trees:
        groups[tree.forms].append(tree)
    return groups


def of_kind(trees, *kinds):
    return [tree for tree in trees if toy.kind_of(tree) in kinds]


def assert_fair(outcomes, what):
    """Check that the share of ones is within four standard deviations of one half."""
    count = len(outcomes)
    assert count >= 30, f"too few cases to judge: {what}"
    assert abs(sum(outcomes) - count / 2) < 4 * math.sqrt(count) / 2, f"unfair coin: {what}"


def run(directory, seed=1):
    sizes = ["--train", "60", "--dev", "40", "--test", "40"]
    toy.main([str(directory), "--seed", str(seed), *sizes])
    return {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}


# Files


def test_same_seed_same_files_and_no_part_is_left(tmp_path):
    first, second = run(tmp_path / "first"), run(tmp_path / "second")
    assert first == second
    assert set(first) == {f"{s}.{end}" for s in SPLITS for end in ("src.conllu", "tgt", "kinds")}


def test_other_seed_other_sentences_in_the_same_language(tmp_path):
    assert run(tmp_path / "first", seed=1)["train.tgt"] != run(tmp_path / "other", 2)["train.tgt"]
    assert script(SCRIPT).DICTIONARY == toy.DICTIONARY


def test_conllu_says_what_the_trees_say(tmp_path):
    files = run(tmp_path)
    treebank = toy.draw_treebank(1, 60, 40, 40)
    for split in SPLITS:
        blocks = files[f"{split}.src.conllu"].split("\n\n")
        assert blocks.pop() == ""
        assert [read_block(block) for block in blocks] == treebank[split]
        assert len({block.split("\n")[0] for block in blocks}) == len(blocks)


def read_block(block):
    name, text, *lines = block.split("\n")
    assert name.startswith("# sent_id = ")
    rows = [line.split("\t") for line in lines]
    assert all(len(row) == 10 and all(row) for row in rows)
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert all((row[7] == "root") == (row[6] == "0") for row in rows)
    assert all(row[3] in {"NOUN", "VERB", "ADJ", "DET", "ADP", "PRON"} for row in rows)
    assert text == "# text = " + " ".join(row[1] for row in rows)
    return toy.Tree(tuple(row[1] for row in rows), tuple(int(row[6]) - 1 for row in rows))


# Trees and strings


@pytest.mark.long(ci=True)
def test_sizes_and_shares(treebank):
    for split, size in zip(SPLITS, (8000, 600, 800), strict=True):
        kinds = Counter(map(toy.kind_of, treebank[split]))
        assert sum(kinds.values()) == size
        ambiguous = kinds[toy.AMBIGUOUS] + kinds[toy.TIE]
        assert 0.5 <= ambiguous / size <= 0.6
        assert 0.45 <= kinds[toy.TIE] / ambiguous <= 0.55


def test_no_string_is_in_two_splits(treebank):
    strings = [set(by_string(treebank[split])) for split in SPLITS]
    assert all(one.isdisjoint(other) for one, other in combinations(strings, 2))


# Readings


def test_readings_are_a_function_of_the_string(held_out):
    for tree in held_out:
        readings = toy.readings(tree)
        assert tree in readings
        assert len(set(readings)) == len(readings) == 2 ** len(toy.prepositions(tree))
        assert all(toy.readings(reading) == readings for reading in readings)
        assert {toy.kind_of(reading) for reading in readings} == {toy.kind_of(tree)}


def test_each_string_once_with_each_tree_and_different_targets(held_out):
    """So a model of strings is right on at most half of the ambiguous sentences."""
    for trees in by_string(held_out).values():
        assert sorted(trees) == sorted(toy.readings(trees[0]))
        assert len({tuple(toy.translate(tree)) for tree in trees}) == len(trees)


def test_readings_of_a_tie_differ_in_relations_alone(held_out):
    """So a model that knows depths is right on at most half of the ties."""
    for tree in of_kind(held_out, toy.TIE):
        readings = toy.readings(tree)
        assert all(depths(reading) == depths(tree) for reading in readings)
        assert all(relations(a) != relations(b) for a, b in combinations(readings, 2))


# The coin


def phrase_features(tree, word, sites):
    """What the coin might depend on by mistake."""
    after = word > tree.parents.index(toy.ROOT)
    lemmas = [toy.DICTIONARY[tree.forms[noun]].lemma for noun in toy.children(tree, word)]
    yield "candidates", sites
    yield "preposition", tree.forms[word]
    yield "after the verb", after
    yield "word number", min(word, 12)
    yield "length of the sentence", min(max(len(tree.forms), 6), 15)
    yield (
        "length of the phrase",
        2 + any(toy.children(tree, noun) for noun in toy.children(tree, word)),
    )
    yield "phrases in the sentence", len(toy.prepositions(tree))
    yield "noun starts with", lemmas[0][0]


def test_the_coin_is_fair_whatever_the_string(attachments):
    outcomes = defaultdict(list)
    for tree, word, sites, outcome in attachments:
        for feature in phrase_features(tree, word, sites):
            outcomes[feature].append(outcome)
    for feature, tossed in outcomes.items():
        if len(tossed) >= 30:
            assert_fair(tossed, feature)
    assert_fair([outcome for *_, outcome in attachments], "all phrases")


# Translation


def hand_drawn(*words):
    """Return a tree from (class, parent) pairs, each word the first one of its class."""
    forms = [toy.WORD_CLASSES[word_class][0][0] for word_class, _ in words]
    return toy.Tree(tuple(forms), tuple(parent for _, parent in words))


def targets(tree, *order):
    """The translations of words in this order; a text stands for itself."""
    return [o if isinstance(o, str) else toy.DICTIONARY[tree.forms[o]].target for o in order]


def sentence(sites, parent):
    """Return the tree of DET ADJ NOUN VERB DET NOUN PRON VERB ADP NOUN."""
    subject = [("DET", 2), ("ADJ", 2), ("NOUN", 3), ("VERB", toy.ROOT)]
    object_ = [("DET", 5), ("NOUN", 3), ("PRON", 7), ("VERB.relative", 5)]
    return hand_drawn(*subject, *object_, (sites, parent), ("NOUN", 8))


@pytest.mark.parametrize(
    ("sites", "parent", "order"),
    [
        (("verb", "object"), 3, (0, 1, 2, 7, 6, 4, 5, 9, 8, "ya", 3)),
        (("verb", "object"), 5, (0, 1, 2, 9, 8, "hu", 7, 6, 4, 5, 3)),
        (("subject", "object"), 2, (9, 8, "wo", 0, 1, 2, 7, 6, 4, 5, 3)),
        (("subject", "object"), 5, (0, 1, 2, 9, 8, "hu", 7, 6, 4, 5, 3)),
    ],
)
def test_translation_by_hand(sites, parent, order):
    tree = sentence(sites, parent)
    assert toy.translate(tree) == targets(tree, *order)
    assert tree in toy.readings(tree)
