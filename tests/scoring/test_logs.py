"""What fairseq's own logs tell, read from real runs and from lines as they are printed."""

import re
import sys
from pathlib import Path

import pytest

from fairseq_posattn.cli import translations
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.scoring.generate_log import outputs, read_logs, speed
from fairseq_posattn.scoring.score_record import Decoding, Losses
from fairseq_posattn.scoring.training_log import training
from fairseq_posattn.text.pipeline import TextConfig, TextPipeline
from support import in_process
from support.commands import run

# training


def often(log_format: str, updates: int = 12) -> list:
    return [
        *("--log-format", log_format, "--log-interval", 2, "--max-update", updates),
        *("--validate-interval-updates", 4, "--save-interval-updates", 4, "--seed", 1),
    ]


@pytest.fixture(scope="module")
def trained(toy_data, tmp_path_factory):
    """Return a folder with a training's logs in both formats and checkpoints every four updates."""
    folder = tmp_path_factory.mktemp("trained")
    for log_format in ("simple", "json"):
        log = in_process.train(toy_data, folder / log_format, *often(log_format)).output
        (folder / f"{log_format}.log").write_text(log)
    return folder


def test_both_formats_give_one_course(trained):
    simple, by_json = (training([trained / f"{name}.log"]) for name in ("simple", "json"))
    assert simple.curve == by_json.curve
    assert [point.update for point in simple.curve] == [4, 8, 10, 12]
    assert simple.architecture == by_json.architecture == "posattn_transformer"
    assert simple.words_per_second > 0


def test_the_course_is_that_of_the_log(trained):
    log = (trained / "simple.log").read_text()
    found = training([trained / "simple.log"])
    losses = dict(re.findall(r"train_inner .* loss=([\d.]+),.* num_updates=(\d+)", log))
    train = {int(update): float(loss) for loss, update in losses.items()}
    valid = re.findall(r"subset \| loss ([\d.]+) .*num_updates (\d+)", log)
    assert found.curve == [
        Losses(update=int(update), train_loss=train[int(update)], valid_loss=float(loss))
        for loss, update in valid
    ]
    parameters = re.search(r"num\. shared model params: ([\d,]+)", log)[1]
    assert found.parameters == int(parameters.replace(",", ""))


def test_a_run_that_was_resumed(toy_data, trained, tmp_path):
    """It broke off after update 8 and was resumed from 4, so the course from 4 on is the later
    one."""
    parts = []
    for updates, extra in ((4, ()), (8, ()), (12, ("--restore-file", "checkpoint_1_4.pt"))):
        options = [*often("simple", updates), "--lr", "1e-3", *extra]
        parts.append(in_process.train(toy_data, tmp_path / "run", *options).output)
    (tmp_path / "log").write_text("".join(parts))
    found = training([tmp_path / "log"]).curve
    assert found == training([trained / "simple.log"]).curve


def test_logs_of_several_machines(tmp_path):
    """After an interruption another machine tells of the training; the others say little."""
    logs = {"n1": [(1, 1, 9.0), (2, 2, 8.0), (9, 5, 5.0)], "n2": [(6, 3, 7.0), (7, 4, 6.0)]}
    for name, lines in logs.items():
        text = ["a line without a time", "2026-01-01 00:00:00 | INFO | fairseq | initialized host"]
        for minute, update, loss in lines:
            validated = f"valid | epoch 001 | valid on 'valid' subset | loss {loss}"
            text.append(f"2026-01-01 00:0{minute}:00 | INFO | {validated} | num_updates {update}")
            text.append("  a warning of several lines")
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text))
    curve = training([tmp_path / name for name in logs]).curve
    found = [(point.update, point.valid_loss) for point in curve]
    assert found == [(1, 9.0), (2, 8.0), (3, 7.0), (4, 6.0), (5, 5.0)]


def test_the_clock_of_another_machine(tmp_path):
    """It is ahead, so its start seems to come after the first updates."""
    first = ["2026-01-01 00:00:01 | INFO | x | No existing checkpoint found x.pt"]
    first += [f"2026-01-01 00:00:0{k} | INFO | {valid(k, 9.0 - k)}" for k in (2, 4)]
    other = ["2026-01-01 00:00:03 | INFO | x | No existing checkpoint found x.pt"]
    for name, lines in (("n1", first), ("n2", other)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    curve = training([tmp_path / "n1", tmp_path / "n2"]).curve
    assert [point.update for point in curve] == [2, 4]


def inner(update: int, loss: float, wps: int = 100) -> str:
    return f"epoch 001:  {update} / 99 loss={loss}, wps={wps}, num_updates={update}, lr=1"


def valid(update: int, loss: float, subset: str = "valid") -> str:
    return f"x | epoch 001 | valid on '{subset}' subset | loss {loss} | num_updates {update}"


@pytest.mark.parametrize(
    ("lines", "points"),
    [
        ([inner(10, 9.0), inner(20, 8.0), valid(25, 7.0)], [(25, 8.0, 7.0)]),
        ([valid(5, 9.5), inner(10, 9.0), valid(10, 8.5)], [(5, None, 9.5), (10, 9.0, 8.5)]),
        ([valid(5, 9.0, "dev"), valid(9, 8.0, "dev")], [(5, None, 9.0), (9, None, 8.0)]),
        ([inner(9, 8.0), valid(9, 7.0), inner(4, 6.0)], []),
        ([inner(9, 8.0), valid(9, 7.0), inner(4, 6.0), valid(9, 5.0)], [(9, 6.0, 5.0)]),
        (
            [valid(5, 9.0), valid(9, 7.0), "Loaded checkpoint a/b.pt (epoch 1 @ 7 updates)"],
            [(5, None, 9.0)],
        ),
        ([valid(5, 9.0), "No existing checkpoint found x.pt", valid(6, 8.0)], [(6, None, 8.0)]),
        ([inner(5, "nan"), valid(5, "inf")], [(5, None, None)]),
        (["epoch 001 | loss 6 | wps 9 | num_updates 5", valid(5, 7.0)], [(5, 6.0, 7.0)]),
    ],
)
def test_curves(write, lines, points):
    names = "update", "train_loss", "valid_loss"
    found = training([write("log", ["num. model params: 1,000 (num. trained: 1)", *lines])])
    assert found.curve == [Losses(**dict(zip(names, point, strict=True))) for point in points]
    assert found.parameters == 1000


def test_words_per_second_is_the_median(write):
    log = write("log", [inner(1, 9, 1), inner(2, 9, 100), inner(3, 9, 120)])
    assert training([log]).words_per_second == 100


def test_no_log_of_a_training(write):
    with pytest.raises(
        InputError, match=r"log: found neither parameters nor losses; .*fairseq-train"
    ):
        training([write("log", ["text"])])


# speed


def ended(sentences: str, tokens: str, seconds: float, *rates: float) -> str:
    speeds = "({} sentences/s, {} tokens/s)".format(*rates or (0.5, 0.5))
    return f"x | INFO | Translated {sentences} sentences ({tokens} tokens) in {seconds}s {speeds}"


def test_speed_of_a_run(write):
    log = write("log", ["H-0\t-1\ta", ended("3,003", "86,000", 12.3, 244.15, 6991.87)])
    assert speed([log]) == Decoding(
        sentences=3003, seconds=12.3, sentences_per_second=244.15, pieces_per_second=6991.87
    )


def test_speed_of_shards_side_by_side(write):
    counts = {"a": ("1,500", "40,000", 10.0), "b": ("1,503", "46,000", 12.0)}
    found = speed([write(name, [ended(*of_log)]) for name, of_log in counts.items()])
    rates = {"sentences_per_second": 3003 / 12, "pieces_per_second": 86000 / 12}
    assert found == Decoding(sentences=3003, seconds=12.0, **rates)


@pytest.mark.parametrize("number", ["1_0", "٣", "9" * 4301, "1.5.2"])
def test_logs_without_one_speed(write, number):
    odd = [(number, "1", 1.0), ("1", number, 1.0), ("1", "1", number), ("1", "1", 1.0, number, 1.0)]
    one = ended("1", "1", 1.0)
    for count, lines in ((0, []), (2, [one, one]), *((0, [ended(*figures)]) for figures in odd)):
        message = f"log: the log contains {count} lines 'Translated"
        with pytest.raises(InputError, match=message):
            speed([write("log", lines)])


# outputs


def shard(data, checkpoint, number: int) -> str:
    options = "--distributed-world-size", 2, "--distributed-rank", number
    return in_process.generate(data, checkpoint, *options).output


@pytest.mark.long
def test_shards_give_the_whole_run(toy_data, trained, write, tmp_path):
    checkpoint = trained / "simple" / "checkpoint_last.pt"
    whole = write("whole", [in_process.generate(toy_data, checkpoint).output])
    shards = [write(name, [shard(toy_data, checkpoint, k)]) for k, name in enumerate("ab")]
    assert outputs(read_logs(shards)) == outputs(read_logs([whole]))
    assert outputs(read_logs(shards), "S") == list(read_lines(toy_data.parent / "test.src"))
    assert speed([whole]).sentences == speed(shards).sentences == 60
    with pytest.raises(InputError, match=r"the line H-\d+ is missing; pass the complete logs"):
        outputs(read_logs(shards[:1]))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["H-0\t-1\ta", "H-2\t-1\tc"],
            "log: the line H-1 is missing; pass the complete logs",
        ),
        (["H-0\t-1\ta", "x", "H-0\t-2\tb"], "log:3: H-0 already occurs in .*log:1; .*--nbest 1"),
        (
            ["H-0\t-1\ta", "H-1\t-0."],
            "log:2: '.*' is not valid output of fairseq-generate; use a complete log",
        ),
        (["text"], "log: no line H-0 found"),
        (
            ["H-0\t-1\ta b2026-01-01 00:00:00 | INFO | fairseq_cli.generate | NOTE: scores"],
            "log:1: '.*' is not valid output of fairseq-generate",
        ),
        (
            ["H-0\t-1\ta", "D-0\t-1\ta", "H-1\t-1\tb"],
            "log: the log is truncated, because H-1 is present but D-1 is missing; use a",
        ),
        (["H-1_0\t-1\ta"], "log:1: '.*' is not valid output of fairseq-generate"),
    ],
)
def test_faults_of_outputs(write, lines, message):
    with pytest.raises(InputError, match=message):
        outputs(read_logs([write("log", [*lines])]))


def test_outputs_as_they_stand(write):
    log = write("log", ["H-1\t-1\ta\u2028b c", "D-1\t-1\tx\ty", "H-0\t-1\t", "D-0\t-1\t"])
    assert outputs(read_logs([log])) == ["", "a\u2028b c"]


def command(monkeypatch, *arguments) -> None:
    monkeypatch.setattr("sys.argv", ["texts", *map(str, arguments)])
    translations.main()


@pytest.mark.parametrize(
    ("options", "text"),
    [((), 'Das ist " gut " , &amp; .'), (("--detokenize", "de"), 'Das ist "gut", &amp;.')],
)
def test_command_without_choices(write, tmp_path, monkeypatch, options, text):
    log = write("log", ["S-0\tt@@ his", 'H-0\t-1\tD@@ as ist " gut " , &amp; .'])
    out, sources = tmp_path / "out", tmp_path / "sources"
    command(monkeypatch, tmp_path, log, "--out", out, "--sources", sources, *options)
    assert out.read_text() == text + "\n"
    assert sources.read_text() == "t@@ his\n"


def test_chinese(write, tmp_path, monkeypatch):
    log = write("log", ["H-0\t-1\t我们 去 北@@ 京 。"])
    command(monkeypatch, tmp_path, log, "--out", tmp_path / "out", "--detokenize", "zh_CN")
    assert (tmp_path / "out").read_text() == "我们去北京。\n"
    with pytest.raises(InputError, match="--detokenize klingon is not a known language"):
        command(monkeypatch, tmp_path, log, "--out", tmp_path / "out", "--detokenize", "klingon")


def test_command_with_choices(write, tmp_path, monkeypatch):
    write("segmenter", ["#version: 0.2", "a s</w>", "i s</w>"])
    (tmp_path / "segmenter").touch()
    TextPipeline(TextConfig("en", "de", separator="//"), tmp_path).save(tmp_path)
    log = write("log", ['H-0\t-1\tD// as ist " gut " , ja .'])
    command(monkeypatch, tmp_path, log, "--out", tmp_path / "out")
    assert (tmp_path / "out").read_text() == 'Das ist "gut", ja.\n'
    with pytest.raises(InputError, match=r"prepare\.json defines the detokeniser"):
        command(monkeypatch, tmp_path, log, "--out", tmp_path / "out", "--detokenize", "de")


@pytest.mark.long(ci=True)
def test_a_log_may_be_a_pipe(write, tmp_path):
    log = write("log", ["S-0\tt@@ his", "H-0\t-1\tD@@ as"])
    program = f"{sys.executable} -m fairseq_posattn.cli.translations {tmp_path} <(cat {log})"
    run("bash", "-c", f"{program} --out {tmp_path}/out --sources {tmp_path}/sources")
    assert (tmp_path / "out").read_text() == "Das\n"
    assert (tmp_path / "sources").read_text() == "t@@ his\n"


def test_nothing_is_written_of_half_a_run(write, tmp_path, monkeypatch):
    log = write("log", ["S-0\ta", "S-1\tb", "H-1\t-1\tb"])
    with pytest.raises(InputError):
        command(monkeypatch, tmp_path, log, "--out", tmp_path / "out", "--sources", tmp_path / "s")
    assert not (tmp_path / "out").exists() and not (tmp_path / "s").exists()


@pytest.fixture(scope="module")
def valid_log(toy_data, trained, tmp_path_factory) -> Path:
    """The log of a translation of the set `valid`, which has as many sentences as `test`."""
    checkpoint = trained / "simple" / "checkpoint_last.pt"
    log = tmp_path_factory.mktemp("valid") / "valid.log"
    log.write_text(in_process.generate(toy_data, checkpoint, "--gen-subset", "valid").output)
    return log


@pytest.mark.parametrize("end", ["Generate ", "INFO | fairseq_cli.generate | {", "H-"])
def test_the_log_of_another_set(end, valid_log, toy_data, tmp_path, monkeypatch):
    """Its first line names the set, and so does the last; one that has neither names none."""
    lines = valid_log.read_text().splitlines()
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines if line.startswith((end, "H-"))))
    options = [toy_data, log, "--out", tmp_path / "out"]
    if end != "H-":
        with pytest.raises(InputError, match="the log is from the subset 'valid', not 'test'"):
            command(monkeypatch, *options)
        assert not (tmp_path / "out").exists()
    command(monkeypatch, *options, "--gen-subset", "valid")
    assert len((tmp_path / "out").read_text().splitlines()) == 60


def test_a_log_without_its_last_sentence(valid_log, toy_data, tmp_path, monkeypatch):
    log = tmp_path / "log"
    kept = [line for line in valid_log.read_text().splitlines() if "-59\t" not in line[:5]]
    log.write_text("".join(f"{line}\n" for line in kept))
    message = "found 59 translations, but the subset 'valid' in .*data has 60 sentences; pass the"
    with pytest.raises(InputError, match=message):
        command(monkeypatch, toy_data, log, "--gen-subset", "valid", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_new_text_is_no_set(valid_log, toy_data, tmp_path, monkeypatch):
    """fairseq-interactive says with W how long it took, and translates as many lines as it gets."""
    log = tmp_path / "log"
    kept = [line for line in valid_log.read_text().splitlines() if line[:3] in ("S-0", "H-0")]
    log.write_text("".join(f"{line}\n" for line in [*kept, "W-0\t0.012\tseconds"]))
    command(monkeypatch, toy_data, log, "--gen-subset", "valid", "--out", tmp_path / "out")
    assert len((tmp_path / "out").read_text().splitlines()) == 1


def test_no_such_folder(write, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"none: there is no such folder"):
        command(monkeypatch, tmp_path / "none", write("log", []), "--out", tmp_path / "out")
