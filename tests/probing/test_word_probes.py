"""Probes of words and heads: against plain loops, and on vectors that hold a tree."""

import math
from collections import Counter, deque

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from fairseq_posattn.probing import structural
from fairseq_posattn.probing.agreement import ALL, PLACES, Agreement, best_heads, head_agreement
from fairseq_posattn.probing.classifiers import random_labels, selectivity
from fairseq_posattn.probing.encoding import Batch
from fairseq_posattn.probing.structural import Probe, Sentences
from fairseq_posattn.probing.words import WordTree, distances, word_vectors
from fairseq_posattn.trees.control import Dice, random_tree
from fairseq_posattn.trees.sentence import Sentence, Tags


def tree_of(size, seed=1):
    return random_tree(size, Dice(str(seed), str(size)))


def sentence_of(parents, punctuation=()):
    size = len(parents)
    tags = [Tags(upos="PUNCT" if k in punctuation else "NOUN") for k in range(size)]
    relations = [f"r{k % 3}:sub" if parent else "root" for k, parent in enumerate(parents)]
    return Sentence([f"W{k}" for k in range(size)], parents, [], relations, tags)


def walked(parents):
    """The distances between words, by walks from each word over the edges."""
    size = len(parents)
    near = {k: [] for k in range(size)}
    for child, parent in enumerate(parents):
        if parent:
            near[child].append(parent - 1)
            near[parent - 1].append(child)
    found = np.zeros((size, size), dtype=int)
    for start in range(size):
        seen, queue = {start: 0}, deque([start])
        while queue:
            word = queue.popleft()
            for other in near[word]:
                if other not in seen:
                    seen[other] = seen[word] + 1
                    queue.append(other)
        for word, far in seen.items():
            found[start, word] = far
    return found


@pytest.mark.parametrize("size", [1, 2, 5, 17])
def test_distances_in_a_tree(size):
    parents = tree_of(size)
    assert (distances(parents) == walked(parents)).all()


def test_words_without_pieces_are_left_out():
    parents = [2, 3, 0, 3]
    found = WordTree.of(sentence_of(parents, {3}), [1, 0, 2, 1])
    assert found.forms == ["w0", "w2", "w3"]
    assert found.parents.tolist() == [-1, -1, 1]  # the parent of w0 has no pieces, w2 is the root
    assert found.relations == ["r0", "root", "r0"]
    assert found.distances.tolist() == [[0, 2, 3], [2, 0, 1], [3, 1, 0]]
    assert found.depths.tolist() == [2, 0, 1]
    assert found.punctuation.tolist() == [False, False, True]


def test_the_vector_of_a_word_is_the_mean_of_its_pieces():
    """The second sentence is shorter, and the embeddings are narrower than the layer."""
    layer, embeddings = torch.randn(2, 5, 3), torch.randn(2, 5, 2)
    end = torch.zeros(2, 5, dtype=torch.bool)
    end[0, 4] = end[1, 3] = True
    real = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], dtype=torch.bool)
    batch = Batch(np.array([0, 1]), [layer], embeddings, real, end)
    found = torch.from_numpy(word_vectors(batch, [[2, 1, 1], [3]]))
    for k, states in enumerate((layer, embeddings)):
        spans = [states[0, :2], states[0, 2:3], states[0, 3:4], states[1, :3]]
        expected = torch.stack([span.mean(dim=0) for span in spans])
        torch.testing.assert_close(found[:, k, : states.shape[2]], expected)
    assert not found[:, 1, 2].any()


def by_loops(sentences):
    """What each head of each layer looks at: hits and words of all places, and by relation."""
    hits, words, relations = Counter(), Counter(), {}
    for pieces, counts, parents, names in sentences:
        first = [sum(counts[:k]) for k in range(len(counts))]
        for layer in range(pieces.shape[0]):
            for head in range(pieces.shape[1]):
                looked = []
                for word in range(len(counts)):
                    weights = {}
                    for other in range(len(counts)):
                        rows = [
                            sum(
                                pieces[layer, head, first[word] + a, first[other] + b]
                                for b in range(counts[other])
                            )
                            for a in range(counts[word])
                        ]
                        weights[other] = sum(rows) / len(rows)
                    del weights[word]
                    looked.append(max(weights, key=weights.get))
                for word in range(len(counts)):
                    parent = parents[word] - 1
                    children = [k for k in range(len(counts)) if parents[k] - 1 == word]
                    at = (layer, head)
                    for place, there, right in (
                        ("parent", parent >= 0, looked[word] == parent),
                        ("child", bool(children), looked[word] in children),
                        ("previous", word > 0, looked[word] == word - 1),
                        ("next", word + 1 < len(counts), looked[word] == word + 1),
                    ):
                        hits[at, place] += there and right
                        words[at, place] += there
                    if parent >= 0:
                        key = names[word]
                        for direction, right in (
                            ("parent", looked[word] == parent),
                            ("child", looked[parent] == word),
                        ):
                            cell = relations.setdefault((direction, key), Counter())
                            cell[at] += right
    return hits, words, relations


def random_sentences(seed, number=6):
    dice = np.random.default_rng(seed)
    found = []
    for k in range(number):
        parents = tree_of(3 + k, seed)
        counts = dice.integers(1, 4, size=len(parents)).tolist()
        size = sum(counts) + 1  # and the end of the sentence
        weights = dice.random((2, 3, size, size))
        tree = WordTree.of(sentence_of(parents), counts)
        found.append((weights, counts, parents, tree))
    return found


def counted(sentences):
    found = Agreement()
    for weights, counts, _, tree in sentences:
        found.add(weights, counts, tree)
    return found


def test_what_the_heads_look_at():
    sentences = random_sentences(3)
    found = counted(sentences)
    hits, words, relations = by_loops([(w, c, p, t.relations) for w, c, p, t in sentences])
    of = {"system": "a", "run": 0, "model": "", "kind": "trained", "trees": "none"}
    for one in head_agreement(found, found, of):
        at = (one.layer, one.head)
        expected = {place: 100 * hits[at, place] / words[at, place] for place in PLACES}
        assert one.dev == pytest.approx(expected)
        assert {place: getattr(one, place) for place in PLACES} == pytest.approx(expected)
    assert {key for key in found if key[1] != ALL} == relations.keys()
    for key, of_heads in relations.items():
        for at, right in of_heads.items():
            assert found[key].hits[at] == right


def test_the_best_head_and_offset_are_chosen_on_other_sentences():
    dev, test = random_sentences(4), random_sentences(5)
    on_dev, on_test = counted(dev), counted(test)
    of = {"system": "a", "run": 0, "model": "", "kind": "trained", "trees": "none"}
    found = {(one.direction, one.relation): one for one in best_heads(on_dev, on_test, of)}
    _, _, before = by_loops([(w, c, p, t.relations) for w, c, p, t in dev])
    _, _, after = by_loops([(w, c, p, t.relations) for w, c, p, t in test])
    for key, one in found.items():
        direction, relation = key
        assert before[key][one.layer, one.head] == max(before[key].values())
        assert one.accuracy == pytest.approx(100 * after[key][one.layer, one.head] / one.words)
        sign = 1 if direction == "parent" else -1
        offsets = {
            name: Counter(
                sign * (parents[word] - 1 - word)
                for _, _, parents, tree in part
                for word in range(len(parents))
                if parents[word] and tree.relations[word] == relation
            )
            for name, part in (("dev", dev), ("test", test))
        }
        assert offsets["dev"][one.offset] == max(offsets["dev"].values())
        share = offsets["test"][one.offset] / offsets["test"].total()
        assert one.offset_accuracy == pytest.approx(100 * share)


def loss_by_loops(matrix, sentences, depth):
    """The loss of a batch without padding, from the equations, word by word."""
    losses = []
    for vectors, tree in sentences:
        mapped = [
            [
                sum(float(v) * float(row) for v, row in zip(vector, column, strict=True))
                for column in matrix.T
            ]
            for vector in vectors
        ]
        error, size = 0.0, len(vectors)
        for a in range(size):
            if depth:
                error += abs(sum(x * x for x in mapped[a]) - tree.depths[a])
                continue
            for b in range(size):
                square = sum((x - y) ** 2 for x, y in zip(mapped[a], mapped[b], strict=True))
                error += abs(square - tree.distances[a, b])
        losses.append(error / (size if depth else size**2))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("depth", [False, True])
def test_the_loss_of_a_structural_probe(depth):
    torch.manual_seed(1)
    trees = [WordTree.of(sentence_of(tree_of(n)), [1] * n) for n in (4, 7, 2)]
    vectors = np.random.default_rng(1).normal(size=(13, 5)).astype(np.float32)
    probe = Probe(5, 3, depth)
    with torch.no_grad():
        probe.matrix.mul_(20)
    [batch] = Sentences(trees, vectors).batches([0, 1, 2], depth)
    parts = [vectors[:4], vectors[4:11], vectors[11:]]
    pairs = zip(parts, trees, strict=True)
    expected = loss_by_loops(probe.matrix.detach().numpy(), pairs, depth)
    assert probe.loss(batch).item() == pytest.approx(expected, rel=1e-5)


def spanning_by_trials(distances):
    """The cheapest of all trees over the words, by Kruskal's rule; ties go to the first words."""
    size, joined, edges = len(distances), list(range(len(distances))), set()
    pairs = sorted((distances[a, b], a, b) for b in range(size) for a in range(b))
    for _, a, b in pairs:
        if joined[a] != joined[b]:
            edges.add(frozenset((a, b)))
            joined = [joined[a] if part == joined[b] else part for part in joined]
    return edges


def test_scores_of_predictions():
    dice = np.random.default_rng(2)
    found, edges, right, by_length = [], 0, 0, {}
    for size in (2, 5, 6, 6, 9):
        parents = tree_of(size, size)
        tree = WordTree.of(sentence_of(parents, {1}), [1] * size)
        predicted = dice.random((size, size))
        predicted += predicted.T
        found.append((tree, predicted))
        kept = [k for k in range(size) if k != 1]
        guessed = {
            frozenset(kept[k] for k in edge)
            for edge in spanning_by_trials(predicted[np.ix_(kept, kept)])
        }
        true = {
            frozenset(kept[k] for k in edge)
            for edge in spanning_by_trials(tree.distances[np.ix_(kept, kept)])
        }
        edges += len(true)
        right += len(true & guessed)
        if size >= 5:
            rows = [
                spearmanr(predicted[k], tree.distances[k]).statistic
                for k in range(size)
                if len(set(tree.distances[k])) > 1
            ]
            by_length.setdefault(size, []).append(np.mean(rows))
    assert structural.uuas(found) == pytest.approx(100 * right / edges)
    expected = np.mean([np.mean(values) for values in by_length.values()])
    assert structural.spearman(found, depth=False) == pytest.approx(expected)


def test_words_below_punctuation_are_joined_to_the_others():
    """Word 1 is punctuation with two children, and hangs on word 0: 0 – 2 and 0 – 3 remain, as the
    authors' program finds, which takes the first of equal distances."""
    tree = WordTree.of(sentence_of([0, 1, 2, 2], {1}), [1] * 4)
    exact = tree.distances.astype(float)
    assert structural.uuas([(tree, exact)]) == 100
    other = exact.copy()
    other[2, 3] = other[3, 2] = 1  # 2 – 3 is an edge in place of 0 – 3
    assert structural.uuas([(tree, other)]) == 50


def paths(parents, width):
    """Vectors with a dimension for each edge to the root, so squared distances are the tree's."""
    found = np.zeros((len(parents), width), dtype=np.float32)
    for word in range(len(parents)):
        at = word
        while parents[at]:
            found[word, at] = 1
            at = parents[at] - 1
    return found


@pytest.mark.long(ci=True)
def test_a_tree_that_vectors_hold_is_found():
    trees, vectors = [], []
    for seed in range(250):
        parents = tree_of(5 + seed % 4, seed)
        trees.append(WordTree.of(sentence_of(parents), [1] * len(parents)))
        vectors.append(paths(parents, 8))
    parts = [slice(0, 200), slice(200, 225), slice(225, 250)]
    train, dev, test = (Sentences(trees[p], np.concatenate(vectors[p])) for p in parts)
    for depth, figure in ((False, "uuas"), (True, "root")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(structural, "RATE", 0.01)
            patch.setattr(structural, "BATCH", 4)
            found = structural.scored(structural.trained(train, dev, 8, depth, 1), test)
        assert found[figure] > 99 and found["spearman"] > 0.95
        nothing = Probe(8, 8, depth)
        assert structural.scored(nothing, test)["spearman"] < found["spearman"]


def test_the_control_task_gives_each_form_one_label():
    labels = ["a"] * 700 + ["b"] * 300
    found = random_labels([f"w{k}" for k in range(5000)], labels, seed=1)
    assert found == random_labels([f"w{k}" for k in reversed(range(5000))], labels, seed=1)
    assert found != random_labels([f"w{k}" for k in range(5000)], labels, seed=2)
    share = Counter(found.values())["a"] / 5000
    assert math.isclose(share, 0.7, abs_tol=0.03)


def test_selectivity_tells_labels_from_words_learnt_by_heart():
    dice = np.random.default_rng(3)

    numbers = [dice.integers(0, 20, size=size) for size in (600, 200, 200)]
    forms = [[f"w{k}" for k in part] for part in numbers]
    labels = [[f"l{k % 2}" for k in part] for part in numbers]
    by_form = [torch.eye(20)[torch.from_numpy(part)] for part in numbers]
    by_label = [torch.eye(2)[torch.from_numpy(part % 2)] for part in numbers]
    by_heart = selectivity(by_form, forms, labels, seed=1)
    assert by_heart == {"accuracy": 100, "control": 100, "selectivity": 0}
    knows = selectivity(by_label, forms, labels, seed=1)
    assert knows["accuracy"] == 100 and knows["control"] < 80
    assert knows["selectivity"] == knows["accuracy"] - knows["control"]
