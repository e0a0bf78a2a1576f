"""Train the parser of local_parser.py."""

import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.text.parsing.local_parser import (
    FILE,
    PUNCTUATION,
    Batch,
    Lexicon,
    Network,
    as_tensors,
    batches,
)
from fairseq_posattn.text.parsing.projective import LEAST, RIGHT, best_trees, parts_of, projective
from fairseq_posattn.trees.sentence import Sentence

UPDATES = {"tiny": 150, "small": 1000, "full": 4000}
WARM_UP, LEARNING_RATE = 50, 3e-3
LOCAL = 10  # weight of the loss that compares the possible next children of a word


class Example(NamedTuple):
    """A sentence with its tree below the artificial root."""

    sentence: Sentence
    tree: list[int]


def train_local(trees: Sequence[Sentence], folder: Path, updates: int) -> None:
    """Train a parser, and store it in the folder."""
    examples = [Example(tree, with_root(tree)) for tree in trees]
    lexicon = Lexicon.of(trees, [tree for _, tree in examples])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = trained(lexicon, examples, updates)
    with replaced_whole(folder / FILE) as path:
        torch.save({"lexicon": asdict(lexicon), "network": network.state_dict()}, path)


def with_root(sentence: Sentence) -> list[int]:
    """Return a projective tree with an artificial root, to which outer punctuation is attached.

    Otherwise, only the root of the sentence would have final punctuation as a child, but a window
    does not show which word is the root.
    """
    assert sentence.parents and sentence.relations
    tree = projective([0, *sentence.parents])
    root = tree.index(0, 1)
    for places in (range(1, root), range(len(tree) - 1, root, -1)):
        for k in places:
            if tree[k] == root and sentence.relations[k - 1] != PUNCTUATION:
                break
            if tree[k] == root:
                tree[k] = 0
    return tree


def trained(lexicon: Lexicon, examples: Sequence[Example], updates: int) -> Network:
    network, draws = Network(lexicon), random.Random(1)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min((done + 1) / WARM_UP, 1.02 - done / updates)
    )
    progress = Progress(total=updates, unit="steps", desc="parser")
    rest: list[list[int]] = []
    for done in range(1, updates + 1):
        if not rest:
            length = [len(tree) * draws.uniform(1, 1.2) for _, tree in examples]
            order = sorted(range(len(examples)), key=length.__getitem__)
            rest = list(batches([sentence for sentence, _ in examples], order))
            draws.shuffle(rest)
        loss = loss_of(network, lexicon, [examples[k] for k in rest.pop()])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress.show(done)
    progress.close()
    return network.eval()


def loss_of(network: Network, lexicon: Lexicon, examples: Sequence[Example]) -> Tensor:
    """Return the loss per word of a batch.

    It is the sum of a structured hinge loss (the gold tree must score higher than all others by the
    number of their wrong parents), and the cross-entropy of the next child of each word, of the
    relations and of the tags.
    """
    sentences, trees = zip(*examples, strict=True)
    batch = Batch(lexicon, sentences)
    windows = network.windows(batch.words)
    roles = network.of_roles(windows)
    numbers, parts = as_tensors([parts_of(tree) for tree in trees])
    score, hidden = network.of_parts(roles, numbers, parts)

    children, stops = network.all_scores(roles, batch.leaves)
    children += 1
    for k, tree in enumerate(trees):
        children[k, tree, :, range(len(tree))] -= 1
    found = best_trees(children, stops, batch.lengths)
    wrong = sum(
        a != b for pair in zip(trees, found, strict=True) for a, b in zip(*pair, strict=True)
    )
    best = network.of_parts(roles, *as_tensors([parts_of(tree) for tree in found]))[0]
    loss = best.sum() + wrong - score.sum()

    loss = loss + LOCAL * next_child(network, batch, roles, numbers, parts)
    at, scores = network.relations(roles, numbers, parts, hidden)
    places = numbers[at], parts[2, at]
    relations, tags = torch.zeros(2, *batch.leaves.shape, dtype=torch.long)
    for k, one in enumerate(sentences):
        last = len(one.words) + 1
        relations[k, 1:last] = torch.tensor([*map(lexicon.relations.index, one.relations)])
        tags[k, 1:last] = torch.tensor([lexicon.tags.index(tag.upos) for tag in one.tags])
    loss = loss + cross_entropy(scores, relations[places], reduction="sum")
    loss = loss + cross_entropy(network.tag(windows[places]), tags[places], reduction="sum")
    return loss / len(places[0])


def next_child(
    network: Network, batch: Batch, roles: Sequence[Tensor], numbers: Tensor, parts: Tensor
) -> Tensor:
    """Return the cross-entropy of the next child (or none) of each head, given the previous one."""
    head, sibling, child, side = parts
    places = torch.arange(batch.leaves.shape[1])
    states = network.states(roles, numbers, parts)
    hidden = torch.cat(
        [states[:, None] + roles[2][numbers, side], (states + network.stop[side])[:, None]], 1
    )
    scores = (torch.relu(hidden) * network.score[side][:, None]).sum(2)
    lengths = torch.tensor(batch.lengths)[numbers]
    right = (places > sibling[:, None]) & (places < lengths[:, None])
    left = (places < sibling[:, None]) & (places > 0)
    possible = (
        torch.where((side == RIGHT)[:, None], right, left) & ~batch.leaves[numbers, head, None]
    )
    stop = torch.ones(len(head), 1, dtype=torch.bool)
    scores = scores.masked_fill(~torch.cat([possible, stop], 1), LEAST)
    return cross_entropy(scores, torch.where(child == head, len(places), child), reduction="sum")
