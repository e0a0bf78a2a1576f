"""Parse with a small network that sees only a few words at a time.

It scores each child of a head given the head, the previous child on that side, and the neighbours
of these three words. It sees neither the depth of a phrase nor its position or length, so it
parses a construction equally well at any depth. The best projective tree is found by dynamic
programming.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.cluster import PARSER_THREADS
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.projective import (
    LEAST,
    LEFT,
    RIGHT,
    Part,
    best_trees,
    parts_of,
)
from fairseq_posattn.text.parsing.stanza_parser import StanzaParser, at_spaces
from fairseq_posattn.trees.sentence import Sentence, Tags

FILE = "local.pt"
WIDTH, HIDDEN = 32, 128
KINDS = 5  # features of a word
ROOT, EDGE, FIRST = KINDS, KINDS + 1, KINDS + 2  # numbers below KINDS: unknown features
FREQUENT = 20  # a word that occurs this often in training, always without children, gets none
LARGEST = 64, 1_500_000  # sentences of a batch, and the number of their triples of words
WORD_DROPOUT, WINDOW_DROPOUT, RELATION_DROPOUT = 0.25, 0.3, 0.3
PUNCTUATION = "punct"


def features(word: str) -> list[str]:
    """Return the word, its affixes and its shape, each prefixed with its feature index."""
    low = word.lower()
    signs = (word[:1].isupper(), word[1:].isupper(), any(map(str.isdigit, word)), word.isalnum())
    shape = "".join("ny"[sign] for sign in signs)
    return [f"{k}{part}" for k, part in enumerate((low, low[-3:], low[-2:], low[:2], shape))]


@dataclass
class Lexicon:
    """The indices of features, relations and tags.

    leaves: the frequent words that have no children, and their relations.
    """

    numbers: dict[str, int]
    relations: list[str]
    tags: list[str]
    leaves: dict[str, list[str]]

    @classmethod
    def of(cls, trees: Sequence[Sentence], parents: Sequence[Sequence[int]]) -> Lexicon:
        """Create a lexicon from training trees; features that occur once are unknown."""
        counts = Counter(part for tree in trees for word in tree.words for part in features(word))
        frequent = [part for part, count in counts.items() if count > 1]
        used: dict[str, Counter[str]] = defaultdict(Counter)
        for tree in trees:
            for word, relation in zip(tree.words, tree.relations or (), strict=True):
                used[word.lower()][relation] += 1
        pairs = zip(trees, parents, strict=True)
        heads = {tree.words[k - 1].lower() for tree, of_tree in pairs for k in of_tree if k}
        return cls(
            {part: FIRST + k for k, part in enumerate(frequent)},
            sorted({relation for tree in trees for relation in tree.relations or ()}),
            sorted({tag.upos for tree in trees for tag in tree.tags or ()}),
            {
                w: sorted(names)
                for w, names in used.items()
                if names.total() >= FREQUENT and w not in heads
            },
        )


class Network(nn.Module):
    """Scores the children of a word, and the relations and tags of words."""

    def __init__(self, lexicon: Lexicon):
        super().__init__()
        self.features = nn.Embedding(FIRST + len(lexicon.numbers), WIDTH)
        self.roles = nn.ModuleList(nn.Linear(3 * WIDTH, 2 * HIDDEN) for _ in range(3))
        self.none, self.stop = (nn.Parameter(torch.zeros(2, HIDDEN)) for _ in range(2))
        self.score = nn.Parameter(torch.randn(2, HIDDEN) / 10)
        self.relation = nn.Sequential(
            nn.Dropout1d(RELATION_DROPOUT),
            nn.Flatten(),
            nn.Linear(4 * HIDDEN, len(lexicon.relations)),
        )
        hidden = nn.Linear(3 * WIDTH, HIDDEN)
        self.tag = nn.Sequential(hidden, nn.ReLU(), nn.Linear(HIDDEN, len(lexicon.tags)))

    def windows(self, words: Tensor) -> Tensor:
        """Return vectors of words with neighbours, given indices [sentence, word, feature]."""
        found = self.features(words)
        if self.training:  # rely on endings in place of words, and on words without neighbours
            found[:, :, 0] *= torch.rand(*words.shape[:2], 1) >= WORD_DROPOUT
        found = found.sum(2)
        edge = (KINDS * self.features.weight[EDGE]).expand(len(found), 1, -1)  # as padding
        before, after = torch.cat([edge, found[:, :-1]], 1), torch.cat([found[:, 1:], edge], 1)
        if self.training:
            before = before * (torch.rand(*words.shape[:2], 1) >= WINDOW_DROPOUT)
            after = after * (torch.rand(*words.shape[:2], 1) >= WINDOW_DROPOUT)
        return torch.cat([before, found, after], 2)

    def of_roles(self, windows: Tensor) -> list[Tensor]:
        """Return vectors [sentence, side, word, hidden] of words as head, sibling and child."""
        sides = (role(windows).unflatten(2, (2, HIDDEN)) for role in self.roles)
        return [of_role.transpose(1, 2) for of_role in sides]

    def states(self, roles: Sequence[Tensor], sentence: Tensor, parts: Tensor) -> Tensor:
        """Return vectors of heads and previous children, from which children are predicted."""
        head, sibling, _, side = parts
        first = (sibling == head)[:, None]
        siblings = torch.where(first, self.none[side], roles[1][sentence, side, sibling])
        return roles[0][sentence, side, head] + siblings

    def of_parts(
        self, roles: Sequence[Tensor], sentence: Tensor, parts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the scores of parts, and hidden vectors from which relations are predicted."""
        head, _, child, side = parts
        last = (child == head)[:, None]
        children = torch.where(last, self.stop[side], roles[2][sentence, side, child])
        hidden = torch.relu(self.states(roles, sentence, parts) + children)
        return (hidden * self.score[side]).sum(1), hidden

    def relations(
        self, roles: Sequence[Tensor], sentence: Tensor, parts: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the indices of the parts with a child, and the scores of the child's relations.

        A relation also depends on the next child, and on the child's own first child, which may be
        a preposition or a conjunction.
        """
        head, _, child, side = parts
        last = head == child
        ends = torch.zeros(int(sentence[-1]) + 1, int(head.max()) + 1, dtype=torch.long)
        on_left = (last & (side == LEFT)).nonzero()[:, 0]
        ends[sentence[on_left], head[on_left]] = on_left
        at = (~last).nonzero()[:, 0]
        around = hidden[torch.stack([at, at + 1, ends[sentence[at], child[at]]], 1)]
        own = torch.relu(roles[2][sentence[at], side[at], child[at]])
        return at, self.relation(torch.cat([around, own[:, None]], 1))

    @torch.no_grad()
    def all_scores(self, roles: Sequence[Tensor], leaves: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of all parts, in the form that `best_trees` takes."""
        count, words = leaves.shape
        children = torch.full((count, words, words, words), LEAST)
        stops = torch.full((count, 2, words, words), LEAST)
        for head in range(words):
            rows = (~leaves[:, head]).nonzero()
            for side, near in ((LEFT, range(head, -1, -1)), (RIGHT, range(head, words))):
                places, score = torch.tensor(near), self.score[side]
                siblings = roles[1][:, side, places]
                siblings[:, 0] = self.none[side]
                states = siblings + roles[0][:, side, head, None]
                stops[:, side, head, places] = torch.relu(states + self.stop[side]) @ score
                before, after = torch.triu_indices(len(places), len(places), 1)
                hidden = states[rows, before] + roles[2][rows, side, places[after]]
                children[rows, head, places[before], places[after]] = torch.relu(hidden) @ score
        children[..., 0] = LEAST  # the artificial root has no head
        return children.numpy(), stops.numpy()


class Batch:
    """Sentences as tensors, preceded by the artificial root and padded to equal length."""

    def __init__(self, lexicon: Lexicon, sentences: Sequence[Sentence]):
        self.lengths = [len(sentence.words) + 1 for sentence in sentences]
        shape = len(sentences), max(self.lengths)
        self.words = torch.full((*shape, KINDS), EDGE)
        self.words[:, 0, 0] = ROOT
        self.leaves = torch.ones(shape, dtype=torch.bool)
        self.leaves[:, 0] = False
        for k, sentence in enumerate(sentences):
            for at, word in enumerate(sentence.words, 1):
                self.leaves[k, at] = word.lower() in lexicon.leaves
                numbers = enumerate(features(word))
                self.words[k, at] = torch.tensor([lexicon.numbers.get(f, n) for n, f in numbers])


def batches(sentences: Sequence[Sentence], order: Sequence[int]) -> Iterator[list[int]]:
    """Divide the indices of sentences, which are roughly sorted by length, into batches."""
    batch: list[int] = []
    most, triples = LARGEST
    longest = 0
    for k in order:
        longest = max(longest, len(sentences[k].words) + 1)
        if batch and (len(batch) == most or (len(batch) + 1) * longest**3 > triples):
            yield batch
            batch, longest = [], len(sentences[k].words) + 1
        batch.append(k)
    yield batch


class LocalParser(StanzaParser):
    """A parser that splits lines at spaces, and parses them with a trained network."""

    def __init__(self, settings: ParserSettings):
        self.settings = settings
        torch.set_num_threads(int(os.environ.get(PARSER_THREADS, "1")))  # as for stanza
        path = Path(settings.model_dir or ".", FILE)
        try:
            stored = torch.load(path, weights_only=True)
            self.lexicon = Lexicon(**stored["lexicon"])
            self.network = Network(self.lexicon).eval()
            self.network.load_state_dict(stored["network"])
        except Exception as error:  # missing or damaged files raise various types
            raise InputError(
                f"{path}: cannot load a trained parser ({type(error).__name__}); pass the output "
                "of train-parser --kind local with --model-dir (in translation: --parser-dir)"
            ) from error

    def tokenize(self, lines: Sequence[str]) -> list[Sentence]:
        return [at_spaces(line) for line in lines]

    def trees(self, parts: Sequence[Sentence]) -> list[Sentence]:
        order = sorted(range(len(parts)), key=lambda k: len(parts[k].words))
        found: dict[int, Sentence] = {}
        for chosen in batches(parts, order) if parts else ():
            some = [parts[k] for k in chosen]
            found.update(zip(chosen, parsed(self.network, self.lexicon, some), strict=True))
        return [found[k] for k in range(len(parts))]


@torch.no_grad()
def parsed(network: Network, lexicon: Lexicon, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with their best trees, relations and tags."""
    batch = Batch(lexicon, sentences)
    windows = network.windows(batch.words)
    roles = network.of_roles(windows)
    trees = best_trees(*network.all_scores(roles, batch.leaves), batch.lengths)
    numbers, parts = as_tensors([parts_of(tree) for tree in trees])
    at, scores = network.relations(
        roles, numbers, parts, network.of_parts(roles, numbers, parts)[1]
    )
    relations = [[""] * length for length in batch.lengths]
    columns = (numbers[at], parts[2, at], scores)
    for number, child, row in zip(*(column.tolist() for column in columns), strict=True):
        of_names = dict(zip(lexicon.relations, row, strict=True))
        word = sentences[number].words[child - 1].lower()
        names = lexicon.leaves.get(word, lexicon.relations)
        relations[number][child] = max(names, key=of_names.__getitem__)
    tags = network.tag(windows).argmax(2).tolist()
    found = []
    for sentence, tree, names, row in zip(sentences, trees, relations, tags, strict=True):
        parents, of_words = without_root(tree, names)
        of_tags = [Tags(upos=lexicon.tags[k]) for k in row[1 : len(tree)]]
        found.append(replace(sentence, parents=parents, relations=of_words, tags=of_tags))
    return found


def as_tensors(trees: Sequence[Sequence[Part]]) -> tuple[Tensor, Tensor]:
    """Return the sentence of each part, and its fields, [field, part]."""
    numbers = [number for number, parts in enumerate(trees) for _ in parts]
    return torch.tensor(numbers), torch.tensor([part for parts in trees for part in parts]).T


def without_root(tree: Sequence[int], relations: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return a tree whose artificial root is replaced by its first non-punctuation child."""
    roots = [k for k, parent in enumerate(tree) if not parent][1:]
    root = next((k for k in roots if relations[k] != PUNCTUATION), roots[0])
    parents = [parent or (root if k != root else 0) for k, parent in enumerate(tree)]
    names = ["parataxis" if name == "root" else name for name in relations]
    names[root] = "root"
    return parents[1:], names[1:]
