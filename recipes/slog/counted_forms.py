"""Translate dependency trees to logical forms by count-based rules, without a neural network.

    cd recipes/slog/work && python ../counted_forms.py raw raw/grammar raw/local

This control shows how many forms follow from the trees alone. It prints exact match on `gen` by
category and their mean, in %, with the trees of each folder. All counts are from the training pairs
of the first folder.

The arguments and modifiers of a word are those of the most frequent rule for its word, its relation
and the relations of its children, or, if this combination is new, the most frequent rule without
the word. If that is new, each child receives the most frequent unused role of its relation (with
its head, if seen), and any two arguments are put in their more frequent order.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from alignments import aligned
from forms import PLACE, QUESTIONS, Node, read_form

from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.sentence import Sentence

FUNCTION_WORDS = ("punct", "det", "case", "mark", "aux")  # relations without a role
THAT, SHARED = "that", "shared"


class Step(NamedTuple):
    """A path in the tree: `up` edges to an ancestor, and then to its child, if there is a relation.

    relation, question: the child's relation, and its word if this is a question word or `that`.
    """

    up: int
    relation: str = ""
    question: str = ""


Edge = tuple[str, Step]  # role and path
Key = tuple


class Tree:
    """A dependency tree, with the methods that the rules need."""

    def __init__(self, sentence: Sentence):
        self.words = [word.lower() for word in sentence.words]
        self.spelled, self.relations = sentence.words, sentence.relations or []
        self.heads = [parent - 1 for parent in sentence.parents or ()]

    def children(self, word: int) -> list[int]:
        return [k for k, head in enumerate(self.heads) if head == word]

    def step_to(self, child: int, up: int = 0) -> Step:
        question = self.words[child] in (THAT, *QUESTIONS)
        return Step(up, self.relations[child], self.words[child] if question else "")

    def arguments(self, word: int) -> list[int]:
        return [k for k in self.children(word) if self.relations[k] not in FUNCTION_WORDS]

    def marker(self, word: int, relation: str) -> str:
        """Return the first child with this relation, such as the preposition of a noun, or ""."""
        found = (self.words[k] for k in self.children(word) if self.relations[k] == relation)
        return next(found, "")

    def step(self, start: int, end: int) -> Step:
        """Return the path to a child, to an ancestor, or to a child of an ancestor."""
        up = 0
        while start != end and self.heads[end] != start:
            start, up = self.heads[start], up + 1
        return Step(up) if start == end else self.step_to(end, up)

    def follow(self, start: int, step: Step, used: set[int]) -> int | None:
        """Return the word at the end of a path, or None; skip `used` children."""
        for _ in range(step.up):
            start = self.heads[start] if start >= 0 else -1
        if start < 0 or not step.relation:
            return start if start >= 0 else None
        found = (k for k in self.children(start) if self.step_to(k, step.up) == step)
        return next((k for k in found if k not in used), None)


class Rules:
    """Counts of names, rules, roles and orders in training pairs."""

    def __init__(self, pairs: Iterable[tuple[Tree, Node]]):
        self.names: dict[str, Counter[str]] = defaultdict(Counter)
        self.rules: dict[Key, Counter[tuple[Edge, ...]]] = defaultdict(Counter)
        self.roles: dict[Key, Counter[str]] = defaultdict(Counter)
        self.shared: dict[str, Counter[Edge]] = defaultdict(Counter)
        self.before: Counter[tuple[str, ...]] = Counter()
        for tree, form in pairs:
            parents = [head + 1 for head in tree.heads]
            self.count(tree, form, aligned(tree.spelled, parents, tree.relations, form))

    def count(self, tree: Tree, node: Node, found: dict[int, int]) -> None:
        """Count the rules of a node of a form and of its descendants."""
        at = found[node.place]
        self.names[tree.words[at]][node.name] += 1
        edges, reasons = [], []
        for role, child in node.edges:
            step = tree.step(at, found[child.place])
            edges.append((PLACE if role.startswith(PLACE) else role, step))
            that = [tree.relations[k] for k in tree.children(at) if tree.words[k] == THAT]
            reasons.append(step.relation if not step.up else (that or [SHARED])[0])
            if reasons[-1] == SHARED:
                self.shared[tree.relations[at]][edges[-1]] += 1
            else:
                for key in ((tree.words[at], reasons[-1]), (reasons[-1],)):
                    self.roles[key][edges[-1][0]] += 1
            if not step.up:
                self.count(tree, child, found)
        for key in self.keys(tree, at):
            self.rules[key][tuple(edges)] += 1
        roles = [(role, reason) for (role, _), reason in zip(edges, reasons, strict=True)]
        self.before.update((*a, *b) for a, b in itertools.combinations(roles, 2))

    def keys(self, tree: Tree, at: int) -> list[Key]:
        steps = tuple(map(tree.step_to, tree.arguments(at)))
        return [(tree.words[at], tree.relations[at], steps), (tree.relations[at], steps)]

    def edges(self, tree: Tree, at: int) -> Sequence[Edge]:
        """Return the role of each argument and modifier of a word, and the path to it."""
        for key in self.keys(tree, at):
            if key in self.rules:
                return most(self.rules[key])
        choices = []
        for child in tree.arguments(at):
            relation = tree.relations[child]
            counts = self.roles.get((tree.words[at], relation)) or self.roles[relation,]
            step = Step(1) if tree.words[child] == THAT else tree.step_to(child)
            choices.append((counts, step, relation))
        if self.shared[tree.relations[at]]:
            role, step = most(self.shared[tree.relations[at]])
            choices.append((Counter({role: 1}), step, SHARED))
        found: dict[str, tuple[Step, str]] = {}
        for counts, step, relation in sorted(choices, key=lambda choice: -certainty(choice[0])):
            left = Counter({role: n for role, n in counts.items() if role not in found})
            if left:
                found[most(left)] = (step, relation)
        reasons = [(role, relation) for role, (_, relation) in found.items()]
        ordered = sorted(reasons, key=functools.cmp_to_key(self.later))
        return [(role, found[role][0]) for role, _ in ordered]

    def later(self, one: tuple[str, str], other: tuple[str, str]) -> int:
        """Return how much more often one argument follows another than precedes it."""
        return self.before[other + one] - self.before[one + other]

    def form(self, tree: Tree, at: int, bare: bool = False) -> str:
        """Return the form of a word and, unless it is `bare`, of its arguments and modifiers."""
        names = self.names.get(tree.words[at])
        text = "* " * (tree.marker(at, "det") == "the") + (
            most(names) if names else tree.spelled[at]
        )
        parts: list[str] = []
        used: set[int] = set()
        for role, step in () if bare else self.edges(tree, at):
            child = tree.follow(at, step, used)
            if child is not None:
                used.add(child)
                role = PLACE + tree.marker(child, "case") if role == PLACE else role
                parts.append(f"{role} = {self.form(tree, child, step.up > 0)}")
        return f"{text} ( {' , '.join(parts)} )" if parts else text


def most(counts: Counter):
    """Return the most frequent element."""
    return counts.most_common(1)[0][0]


def certainty(counts: Counter) -> float:
    """Return the share of the most frequent element."""
    return max(counts.values(), default=0) / max(1, counts.total())


def pairs_in(folder: Path, trees: Path, name: str) -> list[tuple[Tree, str]]:
    sentences = map(Tree, read_labelled(str(trees / f"{name}.conllu")))
    return list(zip(sentences, read_lines(folder / f"{name}.lf"), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, help="folder with the extracted texts and gold trees")
    parser.add_argument("trees", type=Path, nargs="*", help="folders with other trees of the texts")
    args = parser.parse_args()
    training = pairs_in(args.raw, args.raw, "train")
    rules = Rules((tree, read_form(form)) for tree, form in training if len(tree.words) > 1)
    categories = list(read_lines(args.raw / "gen.category"))
    columns = []
    for folder in (args.raw, *args.trees):
        right: dict[str, list[bool]] = defaultdict(list)
        pairs = pairs_in(args.raw, folder, "gen")
        for (tree, form), category in zip(pairs, categories, strict=True):
            right[category].append(rules.form(tree, tree.heads.index(-1)) == form)
        column = {name: 100 * sum(found) / len(found) for name, found in sorted(right.items())}
        columns.append({**column, "mean": sum(column.values()) / len(column)})
    for name in columns[0]:
        print(f"{name:18}" + "".join(f"{column[name]:8.1f}" for column in columns))


if __name__ == "__main__":
    command_line.run(main)
