"""Write the tables of probes of words and of attention heads."""

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
MOST = 15  # relations in the table of heads


def word_tables(probes: Sequence[Probes]) -> Iterator[Table]:
    """Yield a table for each kind of probe of words and heads that there is."""
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
        f"{bank.train:,} sentences train, {bank.dev:,} tune, {bank.test:,} test with "
        f"{bank.words:,} words. Structural probes (Hewitt and Manning 2019) "
        f"have {rank}. UUAS is the share of edges that are found, {without}, and Root "
        "that of roots, both in %. Rank correlations are averaged by length over sentences of 5 to "
        "50 words.",
        "Linear probes of labels, accuracy in %; the selectivity is what they are above random "
        "labels of the word types (Hewitt and Liang 2019).",
        "A model that reads trees is told of them: only what is above untrained was learnt.",
    ]
    return Table("Probes of words", ["Vectors", "Trees", *titles], rows, notes)


def means_of_runs(found: Iterable[WordProbe], figure: str) -> list[float]:
    runs = [[one.figures[figure] for one in run] for _, run in sorted(grouped(found, "run"))]
    return [sum(values) / len(values) for values in runs]


def of_heads(heads: Sequence[HeadLooks], offsets: Sequence[PlaceOffset]) -> Table:
    """Return the table of the head of each system that looks most often at each place."""
    rows: list[list[str | Figures]] = []
    for (system, run, kind, trees), found in grouped(heads, "system", "run", "kind", "trees"):
        row: list[str | Figures] = [f"{row_name(system, kind)}, run {run}", trees]
        for place in PLACES:
            best = max(found, key=lambda one: one.dev[place])  # of equal ones the first
            row.append(f"{getattr(best, place):.1f} (layer {best.layer}, head {best.head})")
        rows.append(row)
    rows += list(of_offsets(offsets))
    head = ["Model", "Trees", "parent", "a child", "previous word", "next word"]
    note = (
        "The head that looks there most often on dev, and how often it does so on test, in % of "
        "the words that have such a word. Best offset: how often parent or child is at the offset "
        "that is commonest on dev, which no head needs a tree for."
    )
    return Table("What the words look at most", head, rows, [note])


def of_offsets(offsets: Sequence[PlaceOffset]) -> Iterator[list[str | Figures]]:
    """Yield a row with the best offsets; models that split words alike have the same ones."""
    seen = set()
    for _, found in grouped(offsets, "system", "run", "kind", "trees"):
        cells = {one.place: f"{one.share:.1f} ({one.offset:+d})" for one in found}
        row = ("best offset", NONE, cells.get(PARENT, NONE), cells.get(CHILD, NONE), NONE, NONE)
        if row not in seen:
            seen.add(row)
            yield [*row]


def of_relations(relations: Sequence[RelationHead], direction: str) -> Table:
    """Return the table of the best head and the best offset for the most frequent relations."""
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
        looks, target = "words with a relation look at their parent", "the parent"
    else:
        looks, target = "parents look at a child with the relation", "the child"
    note = (
        f"How often {looks}, in %, through the head that is best on dev, for each run; and how "
        f"often {target} is at the offset that is commonest on dev. The file of posattn probe has "
        "the share of every head."
    )
    way = "to the parent" if direction == PARENT else "to the child"
    return Table(f"Relations in heads, {way}", head, rows, [note])
