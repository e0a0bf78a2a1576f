"""Compute the F1 score of groups of words, such as words of similar frequency in the training data.

A word in a translation is correct if it also occurs in the reference. A word that occurs n times in
the reference is counted as correct at most n times. If there are several references, the first one
is used.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from statistics import mean

import numpy as np
import sacrebleu
from sacrebleu.metrics.base import Score as Computed

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import fingerprint, read_lines
from fairseq_posattn.jobs.step_records import StepRecord, completed_record
from fairseq_posattn.scoring.metrics.buckets import Range, within
from fairseq_posattn.scoring.metrics.runs import Samples, interval
from fairseq_posattn.scoring.metrics.scores import Scoring
from fairseq_posattn.scoring.metrics.texts import Texts, check_count
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.scoring.score_record import WordGroup, range_name
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks
from fairseq_posattn.trees.sentence import Sentence

FREQUENCIES: tuple[Range, ...] = (
    *((0, 0), (1, 1), (2, 4), (5, 9), (10, 99), (100, 999)),
    (1000, None),
)
Lines = Sequence[Sequence[Hashable]]


class WordF1:
    """Word F1; its statistics are the numbers of correct, translated and reference words."""

    bounds = (0.0, 100.0)

    def _compute_score_from_stats(self, stats: list[float]) -> Computed:
        return Computed("F1", shares(stats)[2])


def shares(sums: Sequence[float]) -> tuple[float, float, float]:
    """Return precision, recall and F1 in percent."""
    right, written, wanted = sums
    precision, recall = (100 * right / count if count else 0.0 for count in (written, wanted))
    total = written + wanted
    return precision, recall, 200 * right / total if total else 0.0


def read_words(
    request: ScoreRequest, texts: Texts, scoring: Scoring, samples: Samples
) -> dict[str, list[WordGroup]]:
    """Return the F1 scores of the requested word groups, by criterion, such as `frequency`."""
    found = {}
    if request.train_target:
        prepare = scoring.bleu(force=True)._preprocess_segment  # splits words as in BLEU
        words: list[str | bool] = [sacrebleu.__version__, scoring.tokenizer, request.lowercase]
        frequency = frequencies(request.train_target, prepare, words, request.train_counts)
        reference = [prepare(line).split() for line in scoring.references[0]]
        runs = [[prepare(line).split() for line in run.lines] for run in texts.system]
        by_name = {range_name(*ends): ends for ends in FREQUENCIES}

        def of_frequency(word: str) -> str:
            count = frequency[word]
            return next(name for name, ends in by_name.items() if within(count, *ends))

        groups_of = {g.name: g for g in groups(reference, runs, of_frequency, samples)}
        found["frequency"] = [groups_of[name] for name in by_name if name in groups_of]
    if request.reference_trees or request.hypothesis_trees:
        trees = read_trees(request, texts)
        for name, labels in (("pos", upos), ("relation", relations)):
            pairs = [
                [list(zip(tree.words, labels(tree), strict=True)) for tree in t] for t in trees
            ]
            by_label = groups(pairs[0], pairs[1:], lambda pair: pair[1], samples)
            found[name] = sorted(by_label, key=lambda group: -group.words)
    return found


def frequencies(
    path: str, prepare: Callable[[str], str], settings: Sequence[object], kept: str | None
) -> Mapping[str, int]:
    """Count the words of a text.

    settings: what the words depend on, besides the text.
    kept: a file that caches the counts, or None.
    """
    made_of = {"text": fingerprint(path), "words": settings} if kept else {}
    if kept and (before := completed_record(kept, made_of, [])):
        return Counter(before.answer)
    found = Counter(word for line in read_lines(path) for word in prepare(line).split())
    if kept:
        StepRecord(made_of, [], found).write(kept)
    return found


def groups(
    reference: Lines,
    runs: Sequence[Lines],
    group_of: Callable[..., str | None],
    samples: Samples,
) -> list[WordGroup]:
    """Return the F1 score for each group of words, averaged over the runs.

    group_of: a function that returns the group of a word, or None to ignore the word.
    """
    names: dict[str, int] = {}
    of_word: dict[Hashable, int] = {}
    for word in (word for text in (reference, *runs) for line in text for word in line):
        if word not in of_word and (name := group_of(word)) is not None:
            of_word[word] = names.setdefault(name, len(names))
    table = np.zeros((len(names), len(runs), len(reference), 3))
    for run, lines in enumerate(runs):
        for k, (wanted, written) in enumerate(zip(map(Counter, reference), lines, strict=True)):
            count(table[:, run, k], wanted, Counter(written), of_word)
    found = []
    for name, group in names.items():
        sums = table[group].sum(axis=1)
        precision, recall, f1 = (mean(one) for one in zip(*map(shares, sums), strict=True))
        found.append(
            WordGroup(
                name=name,
                words=int(sums[0, 2]),
                precision=precision,
                recall=recall,
                f1=f1,
                interval=interval(WordF1(), table[group], samples),
            )
        )
    return found


def count(table, wanted: Counter, written: Counter, of_word: dict[Hashable, int]) -> None:
    """Add the statistics of a sentence to a table of shape (groups, 3)."""
    for column, words in enumerate((wanted & written, written, wanted)):
        for word, times in words.items():
            if word in of_word:
                table[of_word[word], column] += times


def read_trees(request: ScoreRequest, texts: Texts) -> list[list[Sentence]]:
    """Read the trees of the reference and of each run."""
    paths = request.hypothesis_trees
    if not (request.reference_trees and paths):
        raise InputError(
            "--reference-trees and --hypothesis-trees require each other, because the words of "
            "both texts need labels; give both or neither"
        )
    if len(paths) != len(texts.system):
        translations = f"{len(texts.system)} translation{'s' * (len(texts.system) > 1)}"
        raise InputError(
            f"--hypothesis-trees has {len(paths)} files, but there are {translations}; give one "
            "for each, in the same order"
        )
    found = []
    for path in [request.reference_trees, *paths]:
        trees = [parse_all_columns(block) for block in read_blocks(path)]
        check_count(texts.system[0], path, len(trees), "trees")
        found.append(trees)
    return found


def upos(tree: Sentence) -> Iterable[str]:
    return [tags.upos for tags in tree.tags or ()]


def relations(tree: Sentence) -> Iterable[str]:
    """Return the relation of each word, without its subtype."""
    return [relation.partition(":")[0] for relation in tree.relations or ()]
