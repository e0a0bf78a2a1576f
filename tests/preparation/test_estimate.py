"""posattn prepare --plan: what a preparation will take, before anything is begun."""

import random
import resource
import sys

import pytest

from fairseq_posattn.preparation import estimate
from fairseq_posattn.preparation.estimate import Cost, Estimate
from support.commands import ROOT, run
from support.files import write
from support.raw_corpus import sentence, translation

pytest.importorskip("stanza")

PREPARE = (sys.executable, ROOT / "preprocess/prepare.py")


def raw(folder, pairs: int, name="train") -> None:
    """Write sentences whose length depends on their place."""
    rng = random.Random("plan")
    texts = [sentence(rng, 1 + 4 * k // pairs).text for k in range(pairs)]
    write(folder / f"{name}.de", texts)
    write(folder / f"{name}.en", [translation(text) for text in texts])


def options(folder, models, *more) -> list:
    return [
        *("--source", "de", "--target", "en", "--train", folder / "train"),
        *("--symbols", 500, "--model-dir", models, "--out", folder / "data", *more),
    ]


def cells_of(table: str) -> dict[str, list[str]]:
    """Return the cells of each row, which stand two spaces apart."""
    rows = [[cell for cell in line.split("  ") if cell] for line in table.splitlines()]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in rows if cells}


def within(factor: float, planned: float, taken: float) -> bool:
    return 1 / factor < planned / taken < factor


@pytest.mark.long
def test_the_plan_holds_for_20000_lines(corpus, tmp_path):
    """Processor time is compared. It grows where other programs take caches and memory, so a plan
    that was made before they came, or while they were there, is made once more."""
    raw(tmp_path, 20_000)
    given = options(tmp_path, corpus.models, "--shard-lines", 10_000)

    def plan(*more) -> dict[str, list[str]]:
        return cells_of(run(*PREPARE, *given, *more, "--plan", fresh=True).stdout)

    planned = plan()
    assert not (tmp_path / "data").exists() and not (tmp_path / "data.work").exists()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*PREPARE, *given, fresh=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 3600
    files = [p for top in ("data", "data.work") for p in (tmp_path / top).rglob("*")]
    disk = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
    assert within(1.5, float(planned["all"][2].split()[0]), disk), (planned, disk)
    if not within(1.5, float(planned["all"][0]), taken):
        planned = plan("--out", tmp_path / "other")
    assert within(1.5, float(planned["all"][0]), taken), (planned, taken)


def test_a_plan_begins_nothing(tmp_path, capsys, monkeypatch):
    """The sample is prepared whole, also with given trees, and nothing stays of it."""
    from fairseq_posattn.cli import prepare

    rng = random.Random("given")
    sentences = [sentence(rng, 2) for _ in range(60)]
    write(tmp_path / "train.de", [s.text for s in sentences])
    write(tmp_path / "train.en", [translation(s.text) for s in sentences])
    (tmp_path / "train.conllu").write_text("".join(s.conllu() for s in sentences))
    there = sorted(tmp_path.iterdir())
    given = [*options(tmp_path, tmp_path, "--parser", "conllu", "--tokenize", "moses", "--plan")]
    monkeypatch.setattr(sys, "argv", ["posattn prepare", *map(str, given)])
    prepare.main()
    printed = capsys.readouterr()
    planned = cells_of(printed.out)
    assert list(planned) == [
        *("step", "normalize", "learn", "parse", "extract", "segment", "project", "filter"),
        *("binarize", "all"),
    ]
    assert sorted(tmp_path.iterdir()) == there
    assert "measuring 15 of 60 training pairs" in printed.err and "sents" not in printed.err


def test_a_corpus_that_is_too_small_is_refused(tmp_path):
    raw(tmp_path, 5)
    given = options(tmp_path, tmp_path, "--parser", "none", "--tokenize", "moses", "--plan")
    refused = run(*PREPARE, *given, check=False)
    assert refused.returncode and "too few for an estimate" in refused.stdout


@pytest.mark.parametrize("count, of", [(1, 1), (3, 10), (7, 10), (10, 10), (500, 20_000)])
def test_samples_lie_evenly(count, of):
    chosen = list(estimate.evenly(range(of), count, of))
    assert len(chosen) == count and chosen[0] == 0
    assert all(k * of / count <= item < (k + 1) * of / count for k, item in enumerate(chosen))


def test_what_a_start_costs_is_counted_once():
    """3 seconds for the start and 0.01 for each line, whatever the samples."""
    one, two = (Cost(3 + 0.01 * n, 100 * n) for n in (500, 2000))
    assert estimate.extended("parse", one, two, (500, 2000), 10**6) == Cost(10_003, 10**8)
    # a measurement whose second sample took no longer than the first
    assert estimate.along(2.0, 1.0, 500, 2000, 4000) == 2.0
    # words that are different grow with the square root of the lines
    learnt = estimate.extended("learn", Cost(1, 7), Cost(2, 8), (500, 2000), 8000)
    assert learnt.seconds == pytest.approx(4) and learnt.disk == 8


def test_the_table_divides_what_is_done_at_once():
    hours = {"parse": Cost(3.6e6, 2e9), "filter": Cost(3600, 0), "binarize": Cost(36_000, 1e6)}
    estimated = Estimate(10**9, (500, 2000), hours, (10**9, 5 * 10**8))
    table = cells_of(estimated.table(100, 2, step_lines=10**10))
    assert table["parse"] == ["1,000", "500.0 MB", "2.0 GB", "10 h 0 min"]
    assert table["filter"] == ["1.000", "1.0 GB", "0.0 MB", "1 h 0 min"]
    assert table["binarize"] == ["10", "1.0 GB", "1.0 MB", "5 h 0 min"]
    assert table["all"] == ["1,011", "1.0 GB", "2.0 GB", "16 h 0 min"]
    table = cells_of(estimated.table(100, 2, step_lines=50_000))
    assert table["parse"][-1] == "10 h 0 min"
    assert table["filter"][-1] == "36 s"
    assert table["binarize"][-1] == "6 min"
