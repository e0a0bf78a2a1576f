"""Exact match, and the main score by kinds of sentences: counted by hand, tested, refused."""

import csv
import json
import random
from statistics import mean

import pytest
from scipy.stats import ttest_ind

from fairseq_posattn.errors import InputError
from fairseq_posattn.report import report
from fairseq_posattn.report.systems import read_systems
from fairseq_posattn.scoring.system_tables import part_tables
from fairseq_posattn.scoring.tables import write_tables
from support.files import lines_of

FORMS = [f"form ( number {k} )" for k in range(60)]
LABELS = ["deep", "long path"] * 29 + ["rare", "rare"]


@pytest.fixture
def scored(scored, write):
    """Score texts against FORMS; return the JSON."""
    run = scored

    def scored(runs, *options, baseline=(), out="out", labels=None, references=(FORMS,)):
        files = [write(f"{out}.run{k}", lines) for k, lines in enumerate(runs)]
        refs = [write(f"ref{k}", lines) for k, lines in enumerate(references)]
        options = ["--references", *refs, "--samples", 300, "--name", out, *options]
        if baseline:
            options += ["--baseline", *(write(f"b{k}", one) for k, one in enumerate(baseline))]
        if labels:
            options += ["--subsets", f"category={write('labels', labels)}"]
        return run(*files, *options, out=out)

    return scored


def wrong(*numbers: int) -> list[str]:
    """The forms, of which these are wrong."""
    return [f"no {form}" if k in numbers else form for k, form in enumerate(FORMS)]


def test_exact_match_by_hand(scored):
    """Spaces between words and at the ends count as one, and either reference is enough."""
    spaced = ["a  b ", "A b", "a b c", ""]
    references = ["a b", "a b", "x", "y"], ["q", "r", " a b\tc", ""]
    found = scored([spaced], "--exact", references=references)["scores"]
    assert found["exact"]["score"] == 75 and found["exact"]["signature"].startswith("nrefs:2|")
    assert "case:mixed" in found["exact"]["signature"]
    assert list(found)[:4] == ["BLEU", "chrF2", "chrF2++", "TER"]
    lower = scored([spaced], "--exact", "--lowercase", references=references)["scores"]["exact"]
    assert lower["score"] == 100 and lower["interval"] == [100, 100]
    assert "case:lc" in lower["signature"]
    plain = scored([spaced], references=references)["scores"]
    assert "exact" not in plain and "TER" in plain


def test_the_main_score_alone(scored):
    ours, theirs = [wrong(*range(0, 58, 2)), wrong(59)], [wrong(1), wrong(2, 3)]
    whole = scored(ours, "--main", "exact", baseline=theirs, labels=LABELS)
    alone = scored(ours, "--main", "exact", "--only-main", baseline=theirs, labels=LABELS)
    assert list(alone["scores"]) == list(alone["baseline"]["scores"]) == ["exact"]
    assert alone["scores"]["exact"] == whole["scores"]["exact"]
    assert alone["subsets"] == whole["subsets"]
    assert "ngrams" in whole and "ngrams" not in alone
    assert "sentences" not in alone["baseline"]
    [name] = scored(ours, "--only-main", references=[FORMS, FORMS])["scores"]
    assert name == "NIST BLEU"  # which tables show by default
    with pytest.raises(InputError, match="--only-main contradicts --exact; leave"):
        scored(ours, "--only-main", "--exact")


def test_runs_are_compared_by_exact_match_as_by_other_scores(scored):
    ours = [wrong(*range(k)) for k in (1, 2, 4)]
    theirs = [wrong(*range(k)) for k in (20, 22, 27)]
    found = scored(ours, "--exact", baseline=theirs)
    runs = [100 * (60 - k) / 60 for k in (1, 2, 4)]
    exact, gap = found["scores"]["exact"], found["baseline"]["scores"]["exact"]
    assert exact["runs"] == pytest.approx(runs) and exact["score"] == pytest.approx(mean(runs))
    assert exact["interval"][0] < exact["score"] < exact["interval"][1] <= 100
    others = [100 * (60 - k) / 60 for k in (20, 22, 27)]
    assert gap["difference"] == pytest.approx(mean(runs) - mean(others))
    assert gap["welch_p"] == pytest.approx(ttest_ind(runs, others, equal_var=False).pvalue)
    assert gap["randomisation_p"] < 0.01 and gap["mark"] in ("↑", "⇑")
    single = scored(ours[:1], "--exact", baseline=theirs[:1])["baseline"]["scores"]["exact"]
    assert single["bootstrap_p"] < 0.01 and single["mark"] == ""


def test_subsets_by_hand(scored):
    """The mean gives two rare sentences as much weight as 29 others of each kind."""
    found = scored(
        [wrong(*range(0, 58, 2)), wrong(59)], "--main", "exact", labels=LABELS, out="ours"
    )
    assert found["main"] == "exact" and "exact" in found["scores"]
    subsets = found["subsets"]["category"]
    shown = {one["name"]: (one["sentences"], one["runs"]) for one in subsets["labels"]}
    assert shown == {"deep": (29, [0, 100]), "long path": (29, [100, 100]), "rare": (2, [100, 50])}
    assert [one["score"] for one in subsets["labels"]] == [50, 100, 75]
    assert subsets["labels"][0]["deviation"] == pytest.approx(70.710678)
    assert subsets["mean"]["runs"] == pytest.approx([200 / 3, 250 / 3])
    assert subsets["mean"]["score"] == pytest.approx(75) and subsets["mean"]["sentences"] == 60
    low, high = subsets["mean"]["interval"]
    assert low < 75 < high
    whole = scored([wrong(*range(10))], "--main", "exact", labels=["all"] * 60)
    assert whole["subsets"]["category"]["mean"]["interval"] == whole["scores"]["exact"]["interval"]


def test_each_label_draws_samples_of_its_own(scored):
    """Two labels with the same sentences right: their mean is known better than each of them."""
    found = scored(
        [wrong(*(k for k in range(60) if k // 2 % 2))],
        "--main",
        "exact",
        labels=["one", "two"] * 30,
    )["subsets"]["category"]
    one, two, both = (part["interval"] for part in [*found["labels"], found["mean"]])
    assert one != two
    assert 0.5 < (both[1] - both[0]) / (one[1] - one[0]) < 0.9  # the root of 1/2


def noisy(share: float, seed: int, *, only: str = "") -> list[str]:
    """The forms, of which so many of a label are wrong, by chance."""
    dice = random.Random(seed)
    return wrong(*(k for k in range(60) if LABELS[k] == only and dice.random() < share))


def test_each_label_is_tested_over_the_runs_and_all_are_corrected(scored):
    ours = [noisy(0.4, seed, only="deep") for seed in range(5, 8)]
    theirs = [noisy(0.75, seed, only="deep") for seed in range(10, 13)]
    found = scored(ours, "--main", "exact", baseline=theirs, labels=LABELS)["subsets"]["category"]
    by_name = {one["name"]: one for one in found["labels"]}
    gap = by_name["deep"]["difference"]
    before, after = (
        [100 * sum(run[k] == FORMS[k] for k in range(0, 58, 2)) / 29 for run in runs]
        for runs in (theirs, ours)
    )
    assert gap["difference"] == pytest.approx(mean(after) - mean(before))
    assert gap["welch_p"] == pytest.approx(ttest_ind(after, before, equal_var=False).pvalue)
    raw = max(gap["welch_p"], gap["bootstrap_p"])
    assert raw < 0.05 < 3 * raw  # there are three labels, and each is a test
    assert {one["difference"]["mark"] for one in found["labels"]} == {""}
    assert by_name["rare"]["difference"]["welch_p"] == 1
    assert found["mean"]["difference"]["difference"] == pytest.approx(gap["difference"] / 3)
    assert found["mean"]["difference"]["welch_p"] == pytest.approx(gap["welch_p"])
    assert found["mean"]["difference"]["mark"] == "↑"  # it is one test


def test_bleu_is_the_main_score_unless_another_is_chosen(scored, write, capsys):
    source = write("source", ["one two", "a " * 12] * 30)
    found = scored([wrong(1)], "--source", source, labels=LABELS)
    assert "main" not in found and all("bleu" in one for one in found["buckets"]["length"])
    exact = scored([wrong(1)], "--source", source, "--main", "exact")["buckets"]["length"]
    assert [(one["from"], one["sentences"], one["score"]) for one in exact] == [
        (1, 30, 100),
        (11, 30, pytest.approx(100 * 29 / 30)),
    ]
    assert "length       sentences   exact" in capsys.readouterr().out


def test_buckets_by_the_longest_dependency(scored, write):
    """A sentence without a tree lies in none, and the distance to no head does not count."""
    trees = []
    for heads in [[0], [0, 1, 2], [2, 5, 2, 2, 0], [], [0, *[1] * 20]] * 12:
        rows = [f"{k}\tw\t_\t_\t_\t_\t{head}\t_\t_\t_" for k, head in enumerate(heads, 1)]
        trees.append("\n".join(["# text = x", *rows]) + "\n\n")
    path = write("trees.conllu", "".join(trees))
    found = scored([wrong(2)], "--trees", path)["buckets"]["longest_dependency"]
    assert [(one["from"], one["to"], one["sentences"]) for one in found] == [
        (0, 2, 24),
        (3, 4, 12),
        (15, None, 12),
    ]


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        ("category", "--subsets is 'category', expected NAME=FILE"),
        ("length={full}", "length is a reserved name; choose another name"),
        ("category={full} category={full}", "category is given twice; choose another name"),
        ("category={short}", "out.run0 has 60 lines, but {short} has 59 labels"),
        ("category={hole}", "{hole}:3: the line is empty, expected a label"),
        ("category={mean}", "{mean}:4: the label 'mean' is reserved for the mean"),
        ("category=nowhere", "nowhere: "),
    ],
)
def test_labels_that_are_refused(scored, write, tmp_path, subsets, message):
    hole = [*LABELS[:2], " ", *LABELS[3:]]
    lines = {"full": LABELS, "short": LABELS[:-1], "hole": hole}
    lines["mean"] = [*LABELS[:3], "mean", *LABELS[4:]]
    files = {name: write(name, text) for name, text in lines.items()}
    with pytest.raises((InputError, OSError)) as refused:
        scored([FORMS], "--subsets", *subsets.format(**files).split())
    assert message.format(**files) in str(refused.value).replace("'nowhere'", "nowhere: ")
    assert not (tmp_path / "out.json").exists()


@pytest.fixture
def compared(scored, tmp_path):
    """A baseline, and a system that is better at one of three labels."""
    base = [wrong(*range(0, 58, 2), *more) for more in ((1,), (3, 5), (7,))]
    ours = [wrong(*numbers) for numbers in ((0,), (2, 4), (3,))]
    scored(base, "--main", "exact", "--test", "gen", labels=LABELS, out="chain")
    options = ("--main", "exact", "--test", "gen", "--baseline-name", "chain")
    scored(ours, *options, baseline=base, labels=LABELS, out="tree")
    return read_systems([tmp_path / "chain.json", tmp_path / "tree.json"])


def test_a_table_by_label(compared, tmp_path):
    labels = json.loads((tmp_path / "tree.json").read_text())["subsets"]["category"]["labels"]
    assert [one["difference"]["mark"] for one in labels] == ["⇑", "", ""]
    published = {"parser": {"deep": 40.6, "mean": 70.8}, "of other sentences": {"x": 1.0}}
    [table] = part_tables(compared, published)
    write_tables([table], tmp_path / "t")
    lines = lines_of(tmp_path / "t.md")
    assert lines[0] == "gen: exact by category:"
    assert lines[2] == "| category | sentences | chain | tree | parser |"
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[4:8]]
    assert [row[:2] + row[4:] for row in cells] == [
        ["deep", "29", "40.6"],
        ["long path", "29", "–"],
        ["rare", "2", "–"],
        ["mean", "60", "70.8"],
    ]
    assert cells[0][2].startswith("0.0 [0.0, 0.0]") and cells[0][3].startswith("**96.6 [")
    assert cells[1][3].startswith("98.9 [") and cells[3][3].startswith("**98.5 [")
    assert "Bold: differs from chain with p < 0.05" in lines[10]
    rows = list(csv.DictReader(lines_of(tmp_path / "t.csv")))
    assert rows[0]["tree"] == "96.55" and rows[0]["tree gain"] == "96.55"
    assert rows[0]["tree mark"] == "⇑" and rows[0]["chain mark"] == ""
    assert rows[3]["tree"] == "98.47" and rows[3]["parser"] == "70.8"
    latex = lines_of(tmp_path / "t.tex")
    assert latex[latex.index(r"\midrule", 6) + 1].startswith("mean & 60")


def test_the_report_shows_labels(compared):
    page = report.page(compared)
    assert 'id="subsets-0-test0-' in page and 'id="parts"' in page
    assert "<h3>gen: exact by category</h3>" in page
    assert '<th scope="row">long path</th>' in page and '<td class="number"><b>96.6 [' in page


def test_ranges_and_labels_of_one_name_are_told_apart(compared, tmp_path):
    """A file may have been written by hand."""
    about = json.loads((tmp_path / "tree.json").read_text())
    about["buckets"] = {"category": [{"from": 0, "to": 1, "sentences": 2, "bleu": 3.0}]}
    (tmp_path / "tree.json").write_text(json.dumps(about))
    [table] = part_tables(read_systems([tmp_path / "tree.json"]))
    assert [row[0] for row in table.rows] == ["deep", "long path", "rare", "mean"]
    del about["buckets"]["category"][0]["bleu"]
    (tmp_path / "tree.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"buckets.category\[0\]: the score is missing"):
        read_systems([tmp_path / "tree.json"])
