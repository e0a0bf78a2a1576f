"""posattn train-parser --kind local: its dynamic program against all trees, and its commands."""

import random
import sys
from itertools import product

import numpy as np
import pytest
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parsing.local_parser import (
    Batch,
    Lexicon,
    LocalParser,
    Network,
    parsed,
    without_root,
)
from fairseq_posattn.text.parsing.local_training import train_local, with_root
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.projective import LEFT, RIGHT, best_trees, parts_of, projective
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.sentence import Sentence, Tags
from support.commands import run
from support.files import write
from support.parse_toys import conllu_row


def has_crossing(tree: list[int]) -> bool:
    edges = [(min(word, head), max(word, head)) for word, head in enumerate(tree) if word]
    return any(a < c < b < d for a, b in edges for c, d in edges)


def is_tree(tree: list[int]) -> bool:
    for word in range(len(tree)):
        for _ in tree:
            word = tree[word]
        if word:
            return False
    return True


def all_trees(words: int) -> list[list[int]]:
    """All projective trees of some words below the artificial root 0."""
    choices = product(range(words + 1), repeat=words)
    trees = ([0, *parents] for parents in choices)
    return [tree for tree in trees if is_tree(tree) and not has_crossing(tree)]


def score_of(tree: list[int], children: np.ndarray, stops: np.ndarray) -> float:
    """The score of a tree by its definition: each head chooses one child after the other."""
    score = 0.0
    for head in range(len(tree)):
        right = [word for word in range(head + 1, len(tree)) if tree[word] == head]
        left = [word for word in range(head - 1, 0, -1) if tree[word] == head]
        for side, places in ((LEFT, left), (RIGHT, right)):
            before = head
            for child in places:
                score += children[head, before, child]
                before = child
            score += stops[side, head, before]
    return score


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_the_best_tree_is_the_best_of_all(words):
    draws, trees = np.random.default_rng(words), all_trees(words)
    size = words + 3  # the batch also contains longer sentences
    children = draws.normal(size=(20, size, size, size)).astype(np.float32)
    stops = draws.normal(size=(20, 2, size, size)).astype(np.float32)
    children[..., 0] = -1e9
    for k, found in enumerate(best_trees(children, stops, [words + 1] * 20)):
        scores = [score_of(tree, children[k], stops[k]) for tree in trees]
        assert found == trees[int(np.argmax(scores))]


def test_all_scores_are_the_scores_of_parts():
    """Also for padded sentences; leaves get no children."""
    tree = Sentence(["a", "b", "c"], [2, 0, 2], relations=["x", "root", "x"], tags=[Tags()] * 3)
    lexicon = Lexicon.of([tree, tree], [[0, 2, 0, 2]] * 2)
    lexicon.leaves["c"] = ["x"]
    network = Network(lexicon).eval()
    batch = Batch(lexicon, [tree, Sentence(["b", "a", "c", "a"])])
    roles = network.of_roles(network.windows(batch.words))
    children, stops = network.all_scores(roles, batch.leaves)
    parts = parts_of([0, 2, 0, 2])
    fields = torch.tensor(parts).T
    expected, _ = network.of_parts(roles, torch.zeros(len(parts), dtype=torch.long), fields)
    alone = network.of_roles(network.windows(Batch(lexicon, [tree]).words))
    again, _ = network.of_parts(alone, torch.zeros(len(parts), dtype=torch.long), fields)
    assert torch.allclose(expected, again, atol=1e-5)  # padding changes nothing
    for part, score in zip(parts, expected.tolist(), strict=True):
        head, sibling, child, side = part
        found = stops[0, side, head, sibling] if head == child else children[0][part[:3]]
        assert abs(found - score) < 1e-5
    assert children[0, 3].max() < -1e8
    for one in parsed(network, lexicon, [tree, Sentence(["c"]), Sentence(["c", "c"])]):
        assert tree_fault(one.parents) is None


def test_crossing_edges_are_lifted():
    for tree in ([0, 2, 0, 5, 2, 2], [0, 0, 4, 1, 1, 3], [0, 8, 4, 4, 0, 8, 8, 8, 4]):
        found = projective(tree)
        assert is_tree(found) and not has_crossing(found)
        for word in range(1, len(tree)):  # each new parent is an ancestor of the old one
            head = tree[word]
            while head not in (found[word], 0):
                head = tree[head]
            assert head == found[word]


def test_final_punctuation_is_a_child_of_the_artificial_root():
    words, relations = ["(", "a", "b", ",", "c", "!", "."], ["punct", "x", "root"]
    relations += ["punct", "x", "punct", "punct"]
    tree = Sentence(words, [3, 3, 0, 3, 3, 5, 3], relations=relations)
    assert with_root(tree) == [0, 0, 3, 0, 3, 3, 5, 0]
    assert without_root([0, 0, 3, 0, 3, 3, 5, 0], ["", *relations]) == (tree.parents, relations)


POSATTN = (sys.executable, "-m", "fairseq_posattn")
NOUNS, VERBS, PLACES = ("cat", "dog", "hen", "fly"), ("sleeps", "runs", "sings"), ("on", "in")


def nested(draws: random.Random, depth: int) -> list[str]:
    """Rows of a sentence such as `cat on dog in hen sleeps .`, with nested modifiers."""
    rows, verb = [conllu_row(1, draws.choice(NOUNS), "NOUN", 2 * depth + 2, "nsubj")], 2 * depth + 2
    for k in range(2, verb, 2):
        rows.append(conllu_row(k, draws.choice(PLACES), "ADP", k + 1, "case"))
        rows.append(conllu_row(k + 1, draws.choice(NOUNS), "NOUN", k - 1, "nmod"))
    rows.append(conllu_row(verb, draws.choice(VERBS), "VERB", 0, "root"))
    return [*rows, conllu_row(verb + 1, ".", "PUNCT", verb, "punct"), ""]


def test_the_commands_train_a_parser_that_parses_deeper_phrases(tmp_path):
    draws = random.Random(1)
    for split, size in (("train", 300), ("dev", 30)):
        rows = [row for _ in range(size) for row in nested(draws, draws.choice((0, 1, 2)))]
        write(tmp_path / f"{split}.conllu", [*rows])
    files = ["--train", tmp_path / "train.conllu", "--dev", tmp_path / "dev.conllu"]
    options = ["--kind", "local", "--lang", "en", "--size", "tiny", "--out", tmp_path / "models"]
    printed = run(*POSATTN, "train-parser", *files, *options).stdout
    assert printed.endswith("models: on dev, UPOS 100.00, UAS 100.00, LAS 100.00\n")
    again = run(*POSATTN, "train-parser", *files, *options).stdout
    assert again.startswith(f"{tmp_path}/models: the models have already been trained")

    gold = [nested(draws, depth) for depth in (3, 6, 12)]
    text = [" ".join(row.split("\t")[1] for row in rows if row) for rows in gold]
    given, out = write(tmp_path / "text", text), tmp_path / "out.conllu"
    run(
        *POSATTN,
        "parse",
        given,
        "--parser",
        "local",
        "--model-dir",
        tmp_path / "models",
        "--out",
        out,
    )
    for rows, found in zip(gold, read_labelled(out), strict=True):
        cells = [row.split("\t") for row in rows if row]
        assert found.parents == [int(row[6]) for row in cells]
        assert found.relations == [row[7] for row in cells]


def test_a_folder_without_a_parser_is_named(tmp_path):
    with pytest.raises(InputError, match=r"local.pt: cannot load a trained parser"):
        LocalParser(ParserSettings("local", model_dir=str(tmp_path)))


def test_long_lines_are_parsed_in_parts(tmp_path):
    tree = Sentence(["a", "b"], [2, 0], relations=["x", "root"], tags=[Tags(upos="X")] * 2)
    train_local([tree] * 8, tmp_path, updates=2)
    parser = LocalParser(ParserSettings("local", model_dir=str(tmp_path), max_words=9))
    short, long, empty = parser.parse(["a  b", " ".join(["a b"] * 10), ""])
    assert short.words == ["a", "b"] and short.tags == [Tags(upos="X")] * 2
    assert "parsed in 3 parts" in long.note and tree_fault(long.parents) is None
    assert empty.words == []
