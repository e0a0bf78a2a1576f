"""posattn score as a user runs it: sacrebleu's numbers, one JSON, errors that name the files."""

import json
import random
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.command_line import describe
from fairseq_posattn.files.records import as_document, as_record
from fairseq_posattn.scoring import score as api
from fairseq_posattn.scoring import system_tables
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.scoring.score_record import ScoredSystem
from support.commands import run as run_program

SENTENCES = [
    "Der Hund bellt, weil die Bus-Linie 10 nicht fährt.",
    'Niemand hat "die Katze" seit Dienstag gesehen & gehört.',
    "Es regnet.",
    "Wir werden sehen, was der nächste Tag uns allen bringt!  ",
    "",
    "In 3,5 Jahren (oder 4) wird\u2028alles besser\u0085 sein.",
] * 3


def noisy(lines, share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join(word.lower() if draw.random() < share else word for word in line.split(" "))
        if draw.random() < 0.8
        else line[5:]
        for line in lines
    ]


@pytest.fixture
def files(write):
    """Write hypotheses, two sets of references, and another system's hypotheses."""
    texts = {
        "hyp": noisy(SENTENCES, 0.1, 1),
        "ref": SENTENCES,
        "ref2": noisy(SENTENCES, 0.3, 2),
        "base": noisy(SENTENCES, 0.6, 3),
    }
    return {name: write(name, lines) for name, lines in texts.items()}


# the numbers


@pytest.mark.parametrize(
    ("references", "ours", "theirs"),
    [
        (["ref"], [], []),
        (["ref", "ref2"], [], []),
        (["ref"], ["--lowercase"], ["-lc", "--chrf-lowercase"]),
        (["ref"], ["--tokenize", "intl"], ["-tok", "intl"]),
        (["ref"], ["--tokenize", "char", "-t", "en"], ["-tok", "char"]),
    ],
)
def test_the_numbers_of_sacrebleus_own_command(files, scored, references, ours, theirs):
    names = [files[name] for name in references]
    found = scored(files["hyp"], "--references", *names, *ours)["scores"]
    command = [sys.executable, "-m", "sacrebleu", *names, "-i", files["hyp"], "-w", 10]
    printed = run_program(*command, "-f", "json", "-m", "bleu", "chrf", "ter", *theirs).stdout
    expected = json.loads(printed[printed.index("[") :])
    assert [one["name"] for one in expected] == ["BLEU", "chrF2", "TER"]
    for one in expected:
        assert found[one["name"]]["score"] == pytest.approx(one["score"], abs=1e-9)
        assert found[one["name"]]["signature"] == one["signature"]


def test_p_values_of_sacrebleus_own_command(files, scored):
    compare = "--baseline", files["base"], "--samples", 200
    found = scored(files["hyp"], "--references", files["ref"], *compare)["baseline"]["scores"]
    for kind, column in (("bs", "bootstrap_p"), ("ar", "randomisation_p")):
        printed = run_program(
            *(sys.executable, "-m", "sacrebleu", files["ref"], "-i", files["base"], files["hyp"]),
            *("-m", "bleu", "chrf", "ter", f"--paired-{kind}", f"--paired-{kind}-n", 200),
            *("-f", "text"),
        ).stdout
        expected = [float(p) for p in re.findall(r"\(p = ([\d.]+)\)", printed)]
        ours = [figures[column] for name, figures in found.items() if name != "chrF2++"]
        assert ours == pytest.approx(expected, abs=1e-4)


# the JSON


EXAMPLE = {
    "number": 17,
    "words": ["It"],
    "parents": None,
    "pieces": ["It"],
    "translation": "Es",
    "attention": {"layers": 1, "heads": 1, "queries": 1, "keys": 1, "weights": "/w=="},
}


def conllu(depths) -> list[str]:
    """Return trees that are chains of words; the deep ones have the text as it was written."""
    lines = []
    for number, depth in enumerate(depths):
        lines += [f"# text = It's {number}."] * (depth > 1)
        lines += [f"{k}\tw\t_\t_\t_\t_\t{k - 1}\t_\t_\t_" for k in range(1, depth + 2)] + [""]
    return lines


def test_everything_in_one_file(files, write, scored, capsys):
    count = len(SENTENCES)
    log = "Translated 18 sentences (99 tokens) in 1.5s (12.00 sentences/s, 66.00 tokens/s)"
    train = "epoch 001 | valid on 'valid' subset | loss 2 | num_updates 7"
    result = scored(
        *(files["hyp"], "--references", files["ref"], "--baseline", files["base"]),
        *("--samples", 50, "--name", "csan", "--baseline-name", "sequence", "--test", "toy"),
        *("--source-lang", "en", "--target-lang", "de", "--nist"),
        *("--source", write("src", ["a b c"] * 10 + ["w " * 60] * 8)),
        *("--trees", write("trees.conllu", conllu([1, 3, 9] * 6))),
        *("--pieces", write("pieces", ["a@@ b c@@ d e", "a"] * 9)),
        *("--generate-log", write("gen", [log]), "--parsing-log", write("parse", [log])),
        *("--train-log", write("train", [train])),
        *("--examples", write("examples", [json.dumps([EXAMPLE])])),
    )
    assert list(result)[:8] == [
        *("version", "code", "system", "test", "source", "target", "sentences", "references")
    ]
    result.pop("code")
    assert list(result.values())[:7] == [1, "csan", "toy", "en", "de", count, 1]
    metrics = ["BLEU", "chrF2", "chrF2++", "TER"]
    assert list(result["scores"]) == [*metrics, "tokenised BLEU", "NIST BLEU"]
    assert [order["n"] for order in result["ngrams"]] == list(range(1, 9))
    assert spans(result, "length") == [(1, 10, 10), (51, None, 8)]
    assert spans(result, "depth") == [(0, 2, 6), (3, 3, 6), (7, None, 6)]
    assert spans(result, "split_words") == [(0, 0, 9), (2, 2, 9)]
    assert result["baseline"]["system"] == "sequence"
    assert list(result["baseline"]["scores"]) == [*metrics, "NIST BLEU"]
    gap = result["baseline"]["ngrams"][3]["bleu"]
    assert gap == pytest.approx(result["baseline"]["scores"]["BLEU"]["difference"])
    assert result["speed"]["translation"] == result["speed"]["with_parsing"]
    assert result["speed"]["translation"]["seconds"] == 1.5
    assert result["training"]["curve"] == [{"update": 7, "train_loss": None, "valid_loss": 2.0}]
    assert result["examples"] == [{**EXAMPLE, "text": "It's 17."}]
    written = {one["number"]: one["source"] for one in result["baseline"]["sentences"]}
    assert any(source.split() == ["a", "b", "c"] for source in written.values())  # as it has none
    deep = {number: source for number, source in written.items() if number % 3}
    assert deep == {number: f"It's {number}." for number in deep} != {}
    assert_table(capsys.readouterr().out, result)


def test_the_same_from_python(files, scored):
    compare = "--baseline", files["base"], "--samples", 20
    found = scored(files["hyp"], "--references", files["ref"], *compare)
    request = ScoreRequest(hypotheses=[files["hyp"]], references=[files["ref"]], samples=20)
    assert as_document(api.score(replace(request, baseline=[files["base"]]))) == found
    for wrong in (replace(request, references=None), replace(request, sgm=["x"])):
        with pytest.raises(InputError, match="exactly one of --references and --sgm"):
            api.score(wrong)


def test_a_bom_at_the_beginning_of_any_file_changes_nothing(files, write, scored):
    count = len(SENTENCES)
    log = "Translated 18 sentences (99 tokens) in 1.5s (12.00 sentences/s, 66.00 tokens/s)"
    texts = {
        "source": ["a b c"] * count,
        "pieces": ["a@@ b"] * count,
        "trees.conllu": conllu([1] * count),
        "gen": [log],
        "train": ["num. shared model params: 1,000 (num. trained: 1)"],
        "examples": [json.dumps([EXAMPLE])],
        "src.sgm": sgm(SENTENCES),
        "ref.sgm": sgm(SENTENCES),
        **{name: Path(path).read_text().split("\n")[:-1] for name, path in files.items()},
    }
    results = []
    for mark in ("", "\ufeff"):
        at = {name: write(name, [mark + first, *rest]) for name, (first, *rest) in texts.items()}
        options = [at["hyp"], "--baseline", at["base"], "--samples", 2, "--source", at["source"]]
        options += ["--pieces", at["pieces"], "--trees", at["trees.conllu"]]
        options += ["--generate-log", at["gen"], "--train-log", at["train"]]
        options += ["--examples", at["examples"]]
        references = ["--sgm", at["ref.sgm"], "--sgm-source", at["src.sgm"]]
        results.append(scored(*options, "--references", at["ref"], at["ref2"]))
        results.append(scored(*options, *references))
    assert results[:2] == results[2:]


def test_examples_are_checked_before_they_are_taken_over(files, write, scored):
    other = write("other", [json.dumps([{"number": 1}])])
    message = r"other: examples\[0\].words is missing.*; make it again with posattn ex"
    with pytest.raises(InputError, match=message):
        scored(files["hyp"], "--references", files["ref"], "--examples", other)


def test_odd_names(files, scored, capsys):
    """Bytes that are not UTF-8 are written as escapes; what hides is seen on the screen."""
    names = "--name", "a\udcff\u202eb", "--test", "t\udcfe", "--baseline-name", "b\udcff"
    options = "--baseline", files["base"], "--samples", 2, *names
    result = scored(files["hyp"], "--references", files["ref"], *options)
    assert result["system"] == "a\\udcff\u202eb" and result["test"] == "t\\udcfe"
    assert result["baseline"]["system"] == "b\\udcff"
    assert capsys.readouterr().out.startswith("a\\udcff\\u202eb on t\\udcfe: ")


def test_names_of_scores_cannot_steer_the_terminal(files, scored):
    found = scored(files["hyp"], "--references", files["ref"])
    found["scores"] = {"B\x1b[2J\u202e": {**found["scores"]["BLEU"], "signature": "a\rb"}}
    shown = "\n".join(system_tables.lines(as_record(ScoredSystem, found, "x.json", "")))
    assert r"B\x1b[2J\u202e" in shown and r"a\rb" in shown


def spans(result: dict, name: str) -> list[tuple]:
    return [(b["from"], b["to"], b["sentences"]) for b in result["buckets"][name]]


def assert_table(printed: str, result: dict) -> None:
    for name, figures in result["scores"].items():
        row = rf"^{re.escape(name)} +{figures['score']:.2f} .*{re.escape(figures['signature'])}$"
        assert re.search(row, printed, re.M)
    assert "differences to sequence: bs:50|ar:50|seed:12345" in printed


def test_several_runs(files, write, scored, capsys):
    """Means with deviations, and tests over the runs; the buckets and n-grams are means, too."""
    ours = [write(f"run{k}", noisy(SENTENCES, 0.1, k)) for k in range(3)]
    theirs = [write(f"base{k}", noisy(SENTENCES, 0.6, k)) for k in range(3)]
    given = ["--references", files["ref"], "--samples", 100]
    given += ["--source", write("src", ["a b c"] * 18)]
    found = scored(*ours, "--baseline", *theirs, *given)
    printed = capsys.readouterr().out
    each = [scored(path, *given) for path in ours]
    score = found["scores"]["BLEU"]
    assert score["runs"] == [one["scores"]["BLEU"]["score"] for one in each]
    assert found["runs"] == found["baseline"]["runs"] == 3 and found["system"] == "run0"
    assert f"{score['score']:6.2f} ± {score['deviation']:.2f}" in printed and "runs: 3" in printed
    for part in ("ngrams", "buckets"):
        lists = [one[part] if part == "ngrams" else one[part]["length"] for one in [found, *each]]
        mean, *runs = [rows[0]["bleu"] for rows in lists]
        assert mean == pytest.approx(sum(runs) / 3)
    compared = found["baseline"]["scores"]["BLEU"]
    assert f"(Welch {compared['welch_p']:.4f}, bootstrap {compared['bootstrap_p']:.4f}" in printed
    assert "with 3 + 3 runs, no exact permutation test can reach a p-value below 0.1\n" in printed
    assert "p for new runs: Welch; on new sentences: bootstrap; for these runs:" in printed


def test_one_run_says_nothing_of_new_trainings(files, scored, capsys):
    compare = "--baseline", files["base"], "--samples", 20
    found = scored(files["hyp"], "--references", files["ref"], *compare)["baseline"]
    assert {figures["mark"] for figures in found["scores"].values()} == {""}
    assert not any("welch_p" in figures for figures in found["scores"].values())
    assert "testing new runs requires several runs of both" in capsys.readouterr().out


@pytest.mark.parametrize("samples", ["1000001", "0", "1e3", "1_000"])
def test_numbers_of_samples(files, scored, capsys, samples):
    with pytest.raises(SystemExit):
        scored(files["hyp"], "--references", files["ref"], "--samples", samples)
    assert (
        "argument --samples: expected a whole number from 1 to 1,000,000" in capsys.readouterr().err
    )


def test_a_seed_that_is_no_number(files, scored, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "lucky")
    with pytest.raises(InputError, match="SACREBLEU_SEED is 'lucky', expected a whole number"):
        scored(files["hyp"], "--references", files["ref"])


# references in NIST's form


def sgm(*sets: list[str]) -> list[str]:
    return [
        f'<doc docid="{k % 3}" sysid="{number}"><seg id="{k}">{text}</seg></doc>'
        for number, texts in enumerate(sets)
        for k, text in enumerate(escaped(line) for line in texts)
    ]


def escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;")


def test_sgm_scores_like_plain_text(files, write, scored):
    texts = [Path(files[name]).read_bytes().decode().split("\n")[:-1] for name in ("ref", "ref2")]
    plain = scored(files["hyp"], "--references", files["ref"], files["ref2"])
    one_file = write("both.sgm", sgm(*texts))
    two_files = [write(f"{k}.sgm", sgm(lines)) for k, lines in enumerate(texts)]
    assert plain["references"] == 2
    assert scored(files["hyp"], "--sgm", one_file)["scores"] == plain["scores"]
    assert scored(files["hyp"], "--sgm", *two_files)["scores"] == plain["scores"]


def test_sgm_source_gives_the_order(files, write, scored):
    lines = sgm(SENTENCES)
    backwards = write("src.sgm", reversed(lines))
    hypotheses = write("back", reversed(SENTENCES))
    references = "--sgm", write("ref.sgm", lines)
    assert scored(hypotheses, *references)["scores"]["BLEU"]["score"] < 90
    ordered = scored(hypotheses, *references, "--sgm-source", backwards)
    assert ordered["scores"]["BLEU"]["score"] == pytest.approx(100)


# what cannot be right


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        (
            "--baseline",
            ["x"],
            "hyp has 18 lines, .*other has 1; create both from the same sentences",
        ),
        ("--source", ["x"] * 19, "hyp has 18 lines, .*other has 19"),
        ("--trees", conllu([1, 1]), "hyp has 18 lines, but .*other has 2 sentences"),
        ("--pieces", ["a"] * 17 + ["b@@"], "other:18: .*truncated"),
        ("--generate-log", ["x"], "other: the log contains 0 lines 'Translated"),
        ("--train-log", ["x"], "other: found neither parameters nor losses"),
        ("--examples", ["x"], "other: the file is damaged .*posattn examples"),
        ("--sgm-source", ["x"], "--sgm-source applies to --sgm only"),
    ],
)
def test_faults(files, write, scored, tmp_path, option, content, message):
    with pytest.raises(InputError, match=message) as raised:
        scored(files["hyp"], "--references", files["ref"], option, write("other", content))
    assert "\n" not in describe(raised.value)
    assert not (tmp_path / "out.json").exists()


def test_other_numbers_of_references(files, write, scored):
    with pytest.raises(InputError, match=r"hyp has 18 lines, .*short has 1"):
        scored(files["hyp"], "--references", files["ref"], write("short", ["x"]))
    with pytest.raises(InputError, match=r"hyp has 18 lines, but .*short.sgm has 1 segments"):
        scored(files["hyp"], "--sgm", write("short.sgm", sgm(["x"])))


def test_module_ends_with_one_line(files, write):
    command = [sys.executable, "-m", "fairseq_posattn.cli.score", files["hyp"]]
    failed = run_program(*command, "--references", write("short", ["x"]), check=False)
    assert failed.returncode == 1
    assert failed.stdout.startswith("error: ") and failed.stdout.count("\n") == 1
    done = run_program(*command, "--references", files["ref"])
    assert re.search(r"^BLEU +[\d.]+ \[[\d.]+, [\d.]+\]  nrefs:1\|", done.stdout, re.M)


def test_process_substitution(files, write):
    """Each text is read once, so it may be a pipe."""
    files = {**files, "trees": write("trees.conllu", conllu([1, 3, 9] * 6))}
    program = f"{sys.executable} -m fairseq_posattn.cli.score"
    texts = "<(cat {hyp}) --references <(cat {ref}) <(cat {ref2}) --baseline <(cat {base})"
    texts += " --trees <(cat {trees})"
    options = "--samples 2 --name a --baseline-name b"
    printed = run_program("bash", "-c", f"{program} {texts.format(**files)} {options}").stdout
    plain = texts.replace("<(cat ", "").replace(")", "")
    assert (
        printed == run_program("bash", "-c", f"{program} {plain.format(**files)} {options}").stdout
    )
