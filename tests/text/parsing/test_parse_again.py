"""A finished parse: what is there and checked is kept, and what was notable is told once."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parsing import run as whole_run
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.work import running
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.lines import LineWork, do_shard, join
from fairseq_posattn.work.slurm_jobs import Jobs, Submitted
from support.parse_toys import planned_parse, toy_texts

GIVEN = ParserSettings("conllu")
LINES, SHARDS = 6, 3
NOTE = "so it was parsed in 2 parts"


class Files:
    """This class has a small text with trees, and parses it within this process."""

    def __init__(self, folder: Path):
        self.text, self.trees = toy_texts(folder, LINES)
        self.out, self.parts = folder / "out.conllu", folder / "out.conllu.parts"
        self.about = folder / "out.conllu.json"
        self.shards_done = 0

    def parse(self, settings: ParserSettings = GIVEN, **options) -> int:
        """How many shards were parsed for it."""
        before, files = self.shards_done, (str(self.text), str(self.out))
        whole_run.parse(*files, settings, Cluster(), 2, str(self.trees), **options)
        return self.shards_done - before

    def work(self, work: LineWork, *rest) -> bool:
        for k in work.pending():
            do_shard(work, k)
            self.shards_done += 1
        return True

    def planned(self, settings: ParserSettings = GIVEN) -> LineWork:
        return planned_parse(self.text, self.out, settings, 2, self.trees)

    def state(self) -> tuple:
        return self.out.read_bytes(), os.stat(self.out).st_mtime_ns


@pytest.fixture
def files(tmp_path, monkeypatch) -> Files:
    """Each line gets a note, as a long one does."""
    files, parse_block = Files(tmp_path), whole_run.parse_all_columns
    monkeypatch.setattr(running, "run", files.work)
    monkeypatch.setattr(
        whole_run, "parse_all_columns", lambda *given: replace(parse_block(*given), note=NOTE)
    )
    return files


def test_what_is_there_is_kept_and_notes_are_told_once(files, capsys):
    assert files.parse() == SHARDS
    printed = capsys.readouterr().err
    assert printed.count(f"text:2: {NOTE}") == 1
    assert f"{LINES} lines, {LINES} trees, checked against" in printed
    before = files.state()
    assert files.parse() == 0
    printed = capsys.readouterr().err
    assert NOTE not in printed
    assert f"parsed and checked before; {files.about} has notes on {LINES} lines" in printed
    assert files.state() == before
    assert not files.parts.exists()
    assert json.loads(files.about.read_text())["answer"]["notes"][1] == [2, NOTE]


def test_parts_that_are_kept(files, capsys):
    assert files.parse(keep_parts=True) == SHARDS
    capsys.readouterr()
    assert files.parse(keep_parts=True) == 0
    assert NOTE not in capsys.readouterr().err
    assert files.parts.exists()
    assert files.parse() == 0
    assert not files.parts.exists()


def test_names_of_files_do_not_matter(files, tmp_path):
    files.parse()
    files.trees = files.trees.rename(tmp_path / "moved.conllu")
    files.text = files.text.rename(tmp_path / "moved")
    assert files.parse() == 0


DAMAGE = {
    "another result": lambda f: f.out.write_bytes(f.out.read_bytes().replace(b"\t0\t", b"\t1\t")),
    "a cut result": lambda f: f.out.write_bytes(f.out.read_bytes()[:-1]),
    "no result": lambda f: f.out.unlink(),
    "another source": lambda f: f.text.write_text(f.text.read_text().replace("a", "A", 1)),
    "other trees": lambda f: f.trees.write_text(f.trees.read_text().replace("\t_\n", "\tx\n", 1)),
    "nothing beside the result": lambda f: f.about.unlink(),
    "an empty file beside it": lambda f: f.about.write_text(""),
    "a list beside it": lambda f: f.about.write_text("[]"),
    "null beside it": lambda f: f.about.write_text("null"),
    "other keys beside it": lambda f: f.about.write_text('{"lines": 6}'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_not_as_it_was_is_parsed_anew(files, damage):
    files.parse()
    damage(files)
    if "A" in files.text.read_text():
        files.trees.write_text(files.trees.read_text().replace("a", "A"))
    assert files.parse() == SHARDS
    assert files.parse() == 0


def test_other_options_are_parsed_anew(files):
    files.parse()
    assert files.parse(replace(GIVEN, max_words=9)) == SHARDS
    assert files.parse() == SHARDS


def test_parts_of_another_parse_are_left_alone(files):
    files.parse()
    before = files.state()
    parse_half(files, replace(GIVEN, max_words=9))
    assert files.parse() == 0
    assert files.parts.exists()
    assert files.state() == before


def parse_half(files: Files, settings: ParserSettings) -> None:
    do_shard(files.planned(settings), 1)


def test_what_slurm_joined_is_told_of(files, capsys):
    """The joining job has nobody to tell."""
    work = files.planned()
    files.work(work)
    join(work)
    before = files.state()
    assert files.parse() == 0
    assert capsys.readouterr().err.count(NOTE) == LINES
    assert files.state() == before
    assert not files.parts.exists()


# What is said of jobs that failed.


def failed(files: Files, logs: dict[int, str], per_task: int = 1) -> list[str]:
    """Of an array over all shards, of which only the second is done."""
    parse_half(files, GIVEN)
    work = files.planned()
    jobs = Jobs(work.logs, Submitted("12", "13", [0, 1, 2], per_task))
    jobs.save()
    jobs.logs.mkdir()
    for task, log in logs.items():
        (jobs.logs / f"12_{task}.out").write_text(log)
    return Jobs.of(work.logs).failures(work)


LOG = """\
0: fairseq_posattn.io.files.InputError: text:5: the parser failed
srun: error: n1: task 0: Exited with exit code 1
srun: launch/slurm: _step_signal: Terminating StepId=5.0
"""


def test_what_failed(files):
    assert failed(files, {0: LOG}) == [
        f"2 of 3 tasks of Slurm job 12 failed; the last lines of their logs in "
        f"{files.parts}/logs/slurm_logs:",
        "12_0.out: fairseq_posattn.io.files.InputError: text:5: the parser failed",
        "12_2.out: the file is missing, because the task did not start",
    ]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("srun: error: n1: task 0: Exited with exit code 1\n", "srun: error: n1: task 0: Exited"),
        ("working\nsrun: error: n1: task 0: Killed\n", "srun: error: n1: task 0: Killed"),
        (
            "slurmstepd-n1: error: *** STEP 6.0 ON n1 CANCELLED\nsrun: error: n1: x\n",
            "slurmstepd-n1",
        ),
        ("x" * 1000, "x" * 150),
    ],
)
def test_the_last_line_of_a_log(files, log, line):
    assert failed(files, {0: log, 2: log}, 2)[1].startswith(f"12_0.out: {line}")


def test_many_that_failed(files):
    parse_half(files, GIVEN)
    work = files.planned()
    lines = Jobs(work.logs, Submitted("12", "13", [0] * 40)).failures(work)
    assert len(lines) == 12
    assert lines[-1] == "30 more tasks failed"


@pytest.mark.parametrize(
    "content", ["[]", "null", '{"x": 1}', '{"shards": 3}', '{"array": 7}', "{", ""]
)
def test_a_damaged_list_of_jobs(files, content):
    parse_half(files, GIVEN)
    (files.parts / "logs/jobs.json").write_text(content)
    with pytest.raises(InputError, match=r"jobs\.json: .*remove it if squeue shows no job"):
        files.parse()
