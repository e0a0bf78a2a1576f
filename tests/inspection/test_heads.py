"""What heads do over a test set: the sums against plain loops, and the command on real models."""

import json
import math

import numpy as np
import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import as_document
from fairseq_posattn.inspection.heads import HeadStatistics
from fairseq_posattn.scoring.inspection_record import read_heads
from fairseq_posattn.trees.conllu import read_conllu
from support.in_process import end_of, train

PARENTS = [2, 0, 2, 3]
COUNTS = [1, 2, 1, 3]
PIECES = sum(COUNTS) + 1  # and the end of the sentence


def random_weights(seed=1, layers=2, heads=3):
    weights = np.random.default_rng(seed).random((layers, heads, PIECES, PIECES))
    return weights / weights.sum(axis=-1, keepdims=True)


def by_loops(weights, layer, head):
    """Entropy, distance and agreement of one head, from their definitions, one by one."""
    rows = weights[layer, head].tolist()
    entropy = distance = 0.0
    for query, row in enumerate(rows):
        entropy += sum(-weight * math.log(weight) for weight in row)
        distance += sum(weight * abs(query - key) for key, weight in enumerate(row))
    first = [sum(COUNTS[:word]) for word in range(len(COUNTS))]
    right = 0
    for word in range(len(COUNTS)):
        looked_at = {}
        for other in range(len(COUNTS)):
            found = [
                sum(rows[first[word] + k][first[other] + j] for j in range(COUNTS[other]))
                for k in range(COUNTS[word])
            ]
            looked_at[other] = sum(found) / len(found)
        del looked_at[word]
        best = max(looked_at, key=looked_at.get)
        right += PARENTS[word] == best + 1 or PARENTS[best] == word + 1
    return entropy / len(rows), distance / len(rows), right / len(COUNTS)


def test_the_figures_of_each_head():
    weights, sums = random_weights(), HeadStatistics()
    sums.add(weights)
    sums.add_tree(weights, COUNTS, PARENTS)
    record = sums.record()
    assert [(h.layer, h.head) for h in record.heads] == [(a, b) for a in (0, 1) for b in (0, 1, 2)]
    for head in record.heads:
        expected = by_loops(weights, head.layer, head.head)
        assert (head.entropy, head.distance, head.tree_edges) == pytest.approx(expected)
    sums.add(weights)  # the same sentence again
    assert [h.entropy for h in sums.record().heads] == pytest.approx(
        [h.entropy for h in record.heads]
    )
    # the words 2, 3 and 4 have their parent or a child right before them: 1-2, 2-3, 3-4
    assert record.neighbours == 3 / 4 and record.words == 4


def test_words_without_pieces_are_left_out():
    """The third word shares the pieces of another one, as in a multiword token."""
    weights, sums, plain = random_weights(), HeadStatistics(), HeadStatistics()
    sums.add(weights)
    sums.add_tree(weights, [1, 2, 0, 1, 3], [2, 0, 2, 2, 4])
    plain.add(weights)
    plain.add_tree(weights, COUNTS, PARENTS[:2] + [2, 3])
    assert [h.tree_edges for h in sums.record().heads] == [
        h.tree_edges for h in plain.record().heads
    ]
    assert sums.words == 4


def test_weights_above_one_are_shares_of_their_sum():
    """Convolved attention need not sum to 1."""
    sums = HeadStatistics()
    sums.add(3 * random_weights())
    expected = by_loops(random_weights(), 0, 0)
    record = sums.record()
    assert (record.heads[0].entropy, record.heads[0].distance) == pytest.approx(expected[:2])
    assert record.heads[0].tree_edges is None and record.neighbours is None  # without a tree
    with pytest.raises(InputError, match="the subset is empty; choose another"):
        HeadStatistics().record()


def test_what_a_decoder_predicts_of_the_source(toy_data, tmp_path):
    """The centres of local attention are means over sentences, and lie inside of the sources."""
    options = ["--cross-attention", "local_soft", "--max-update", "2", "--disable-validation"]
    train(toy_data, tmp_path / "run", *options)
    checkpoint, out = tmp_path / "run/checkpoint_last.pt", tmp_path / "heads.json"
    arguments = [toy_data, "--path", checkpoint, "--cpu", "--first", 5, "--out", out]
    end_of("heads", *arguments)
    place = "decoder.layers.0.encoder_attn"
    found = {number.name: number for number in read_heads(out).numbers if number.place == place}
    assert set(found) == {"centre minus query", "width of the window"}
    for number in found.values():
        assert number.mechanism == "local_soft" and len(number.values) == 4
    assert all(-20 < centre < 20 for centre in found["centre minus query"].values)
    assert all(0 < width < 20 for width in found["width of the window"].values)


@pytest.mark.parametrize("attention", ["relative + tree_relative", "gaussian@0"])
def test_the_command(attention, toy_data, tmp_path):
    tree = ["--encoder-positions", "sequence + tree_depth"] if "tree" in attention else []
    options = ["--encoder-attention", attention, *tree, "--max-update", "2"]
    train(toy_data, tmp_path / "run", *options, "--disable-validation")
    conllu = toy_data.parent / "raw/test.src.conllu"
    path = tmp_path / "run/checkpoint_last.pt"
    arguments = [toy_data, "--path", path, "--cpu", "--first", 7, "--trees", conllu]
    arguments += ["--out", tmp_path / "heads.json"]
    end_of("heads", *arguments)
    found = read_heads(tmp_path / "heads.json")
    trees = list(read_conllu(conllu))[:7]
    assert (found.sentences, found.words) == (7, sum(len(tree.words) for tree in trees))
    assert len(found.heads) == 2 * 4
    for head in found.heads:
        assert 0 < head.entropy < 4 and 0 < head.distance < 20 and 0 <= head.tree_edges <= 1
    numbers = [number for number in found.numbers if number.mechanism == "gaussian"]
    assert bool(numbers) == ("gaussian" in attention)
    for number in numbers:
        assert number.place == "encoder.layers.0.self_attn" and len(number.values) == 4
    document = as_document(found)
    for wrong in (document["heads"][1:], [*document["heads"][:-1], document["heads"][0]], []):
        (tmp_path / "bad.json").write_text(json.dumps({**document, "heads": wrong}))
        with pytest.raises(InputError, match="each head of each layer must occur exactly once"):
            read_heads(tmp_path / "bad.json")
    document["numbers"] = [
        {"place": "a", "mechanism": "b", "name": "c", "heads": [1], "values": []}
    ]
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"numbers\[0\]: found 0 values, expected 1"):
        read_heads(tmp_path / "bad.json")
