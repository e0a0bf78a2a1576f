"""Build the tables of probing results for words and attention heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fairseq_posattn.lab.probing.agreement import CHILD, PARENT, PLACES
from fairseq_posattn.lab.probing.results import (
    HeadLooks,
    PlaceOffset,
    Probes,
    RelationHead,
    WordProbe,
    grouped,
    row_name,
)
from fairseq_posattn.lab.scoring.cells import NONE
from fairseq_posattn.lab.scoring.plain_tables import Figures, Table

COLUMNS = {
    "distance": {"uuas": "UUAS", "spearman": "Spearman of distances"},
    "depth": {"root": "Root", "spearman": "Spearman of depths"},
    "UPOS": {"accuracy": "UPOS", "selectivity": "selectivity of UPOS"},
    "relation": {"accuracy": "Relation", "selectivity": "selectivity of relations"},
}
MOST = 15  # number of relations in the table of heads


def word_tables(probes: Sequence[Probes]) -> Iterator[Table]:
    """Yield the tables of word probes, attention heads and relations that the files contain."""
    words = [one for probe in probes for one in probe.words]
    heads = [one for probe in probes for one in probe.heads]
    offsets = [one for probe in probes for one in probe.offsets]
    relations = [one for probe in probes for one in probe.relations]
    if words:
        yield of_words(words, next(probe for probe in probes if probe.words))
    if heads:
        yield of_heads(heads, offsets)
    for direction in (PARENT, CHILD):
        if one_way := [one for one in relations if one.direction == direction]:
            yield of_relations(one_way, direction)


def of_words(words: Sequence[WordProbe], probes: Probes) -> Table:
    titles = [title for columns in COLUMNS.values() for title in columns.values()]
    rows: list[list[str | Figures]] = []
    for (system, kind, layer, trees), found in grouped(words, "system", "kind", "layer", "trees"):
        row: list[str | Figures] = [row_name(system, kind, layer), trees]
        for name, columns in COLUMNS.items():
            of_probe = [one for one in found if one.probe == name]
            for figure in columns:
                runs = means_of_runs(of_probe, figure)
                row.append(Figures(runs, 3 if figure == "spearman" else 2))
        rows.append(row)
    bank = probes.treebank
    rank = f"the rank {bank.rank}" if bank.rank else "the width of the vectors as their rank"
    tagged = any(one.probe == "UPOS" for one in words)
    without = "without punctuation" if tagged else "with punctuation, as no word has a UPOS"
    notes = [
        f"{bank.train:,} training, {bank.dev:,} dev and {bank.test:,} test sentences, the latter "
        f"with {bank.words:,} words. Structural probes (Hewitt and Manning 2019) have {rank}. UUAS "
        f"is the share of edges that are predicted correctly, {without}, and Root that of roots, "
        "both in %. Rank correlations are averaged by length over sentences of 5 to 50 words.",
        "UPOS and Relation: accuracies of linear probes, in %. Selectivity: their gain over random "
        "labels of the word types (Hewitt and Liang 2019).",
        "A model that reads trees is given part of the answer: only a gain over untrained was "
        "learnt.",
    ]
    return Table("Probes of words", ["Vectors", "Trees", *titles], rows, notes)


def means_of_runs(found: Iterable[WordProbe], figure: str) -> list[float]:
    runs = [[one.figures[figure] for one in run] for _, run in sorted(grouped(found, "run"))]
    return [sum(values) / len(values) for values in runs]


def of_heads(heads: Sequence[HeadLooks], offsets: Sequence[PlaceOffset]) -> Table:
    """Return the table of each model's best head for each of PLACES."""
    rows: list[list[str | Figures]] = []
    for (system, run, kind, trees), found in grouped(heads, "system", "run", "kind", "trees"):
        row: list[str | Figures] = [f"{row_name(system, kind)}, run {run}", trees]
        for place in PLACES:
            best = max(found, key=lambda one: one.dev[place])  # ties go to the first head
            row.append(f"{getattr(best, place):.1f} (layer {best.layer}, head {best.head})")
        rows.append(row)
    rows += list(of_offsets(offsets))
    head = ["Model", "Trees", "parent", "a child", "previous word", "next word"]
    note = (
        "Share of the words with such a parent, child or neighbour whose largest weight is on it, "
        "in % on test, for the head that was best on dev. Best offset: the share for a head that "
        "always attends to the offset that is most frequent on dev, a baseline without trees."
    )
    return Table("What words attend to most", head, rows, [note])


def of_offsets(offsets: Sequence[PlaceOffset]) -> Iterator[list[str | Figures]]:
    """Yield the distinct rows of the baseline that predicts parents or children at a fixed offset.

    Models with the same pieces have the same offsets.
    """
    seen = set()
    for _, found in grouped(offsets, "system", "run", "kind", "trees"):
        cells = {one.place: f"{one.share:.1f} ({one.offset:+d})" for one in found}
        row = ("best offset", NONE, cells.get(PARENT, NONE), cells.get(CHILD, NONE), NONE, NONE)
        if row not in seen:
            seen.add(row)
            yield [*row]


def of_relations(relations: Sequence[RelationHead], direction: str) -> Table:
    """Return the table of the best head and best offset for the most frequent relations."""
    rows: list[list[str | Figures]] = []
    for (system, kind, trees), found in grouped(relations, "system", "kind", "trees"):
        for (relation,), same in list(grouped(found, "relation"))[:MOST]:
            rows.append(
                [
                    row_name(system, kind),
                    trees,
                    relation,
                    f"{same[0].words:,}",
                    Figures([one.accuracy for one in same], 1),
                    ", ".join(f"{one.layer}.{one.head}" for one in same),
                    f"{same[0].offset_accuracy:.1f} ({same[0].offset:+d})",
                ]
            )
    head = ["Model", "Trees", "Relation", "Words", "Best head", "Layer.head", "Best offset"]
    if direction == PARENT:
        looks, target = "words with a relation attend most to their parent", "the parent"
    else:
        looks, target = "parents attend most to a child with the relation", "the child"
    note = (
        f"How often {looks}, in %, with the head that is best on dev, for each run; and how often "
        f"{target} is at the offset that is most frequent on dev. The JSON file of posattn probe "
        "contains the accuracy of every head."
    )
    way = "to the parent" if direction == PARENT else "to the child"
    return Table(f"Relations in heads, {way}", head, rows, [note])
