"""A parse in shards: what is kept, what is refused, and what is done again."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs import running
from fairseq_posattn.jobs.lines import LineWork, do_shard, join
from fairseq_posattn.jobs.slurm import Jobs, Submitted
from fairseq_posattn.text.parsing import run as whole_run
from fairseq_posattn.text.parsing.options import ParseRequest, ParserSettings
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

    def parse(self, settings: ParserSettings = GIVEN, shard_lines: int = 2, **options) -> int:
        """How many shards were parsed for it."""
        before, options = self.shards_done, {**options, "shard_lines": shard_lines}
        paths = {"text": str(self.text), "out": str(self.out)}
        paths |= {"trees": str(self.trees)} if settings.parser == "conllu" else {}
        whole_run.parse(ParseRequest(**paths, settings=settings, **options))
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

    def ends_as_undisturbed(self) -> None:
        """Check that the same command makes what a parse in one piece makes."""
        self.parse()
        whole = self.out.read_bytes()
        self.out.unlink()
        self.parse(shard_lines=LINES)
        assert self.out.read_bytes() == whole


@pytest.fixture
def files(tmp_path, monkeypatch) -> Files:
    """Each line gets a note, as a long one does."""
    files, parse_block = Files(tmp_path), whole_run.parse_all_columns
    monkeypatch.setattr(running, "run", files.work)
    monkeypatch.setattr(
        whole_run, "parse_all_columns", lambda *given: replace(parse_block(*given), note=NOTE)
    )
    return files


@pytest.fixture
def half(files) -> Files:
    """Return files of a parse in which two of three shards are finished."""
    work = files.planned()
    for k in (0, 2):
        do_shard(work, k)
    return files


# A finished parse: what is there and checked is kept, and what was notable is told once.


def test_what_is_there_is_kept_and_notes_are_told_once(files, capsys):
    assert files.parse() == SHARDS
    printed = capsys.readouterr().err
    assert printed.count(f"text:2: {NOTE}") == 1
    assert f"{LINES} lines, {LINES} trees, checked against" in printed
    before = files.state()
    assert files.parse() == 0
    printed = capsys.readouterr().err
    assert NOTE not in printed
    assert f"already parsed and checked; {files.about} has notes on {LINES} lines" in printed
    assert files.state() == before and not files.parts.exists()
    assert json.loads(files.about.read_text())["answer"]["notes"][1] == [2, NOTE]


def test_parts_that_are_kept(files):
    assert files.parse(keep_parts=True) == SHARDS
    assert files.parse(keep_parts=True) == 0 and files.parts.exists()
    assert files.parse() == 0 and not files.parts.exists()


CHANGES = {
    "another result": lambda f: f.out.write_bytes(f.out.read_bytes().replace(b"\t0\t", b"\t1\t")),
    "no result": lambda f: f.out.unlink(),
    "another source": lambda f: f.text.write_text(f.text.read_text().replace("a", "A", 1)),
    "other trees": lambda f: f.trees.write_text(f.trees.read_text().replace("\t_\n", "\tx\n", 1)),
    "nothing beside the result": lambda f: f.about.unlink(),
    "an empty file beside it": lambda f: f.about.write_text(""),
    "other keys beside it": lambda f: f.about.write_text('{"lines": 6}'),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_not_as_it_was_is_parsed_anew(files, change):
    files.parse()
    change(files)
    if "A" in files.text.read_text():
        files.trees.write_text(files.trees.read_text().replace("a", "A"))
    assert files.parse() == SHARDS
    assert files.parse(replace(GIVEN, max_words=9)) == SHARDS
    assert files.parse(replace(GIVEN, max_words=9)) == 0


def test_names_of_files_do_not_matter(files, tmp_path):
    files.parse()
    files.trees = files.trees.rename(tmp_path / "moved.conllu")
    files.text = files.text.rename(tmp_path / "moved")
    assert files.parse() == 0


def test_parts_of_another_parse_are_left_alone(files):
    files.parse()
    before = files.state()
    do_shard(files.planned(replace(GIVEN, max_words=9)), 1)
    assert files.parse() == 0
    assert files.parts.exists() and files.state() == before


def test_what_slurm_joined_is_told_of(files, capsys):
    """The joining job has nobody to tell."""
    work = files.planned()
    files.work(work)
    join(work)
    before = files.state()
    assert files.parse() == 0
    assert capsys.readouterr().err.count(NOTE) == LINES
    assert files.state() == before and not files.parts.exists()


# A parse that was interrupted, and then begun with other files or options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({name: value}, f"parser: {name} .*is {value}")
            for name, value in {
                **{"parser": "stanza", "lang": "de", "package": "best", "model_dir": "elsewhere"},
                **{"tokenized": True, "max_words": 100, "long_lines": "skip"},
            }.items()
        ),
        ({"no_tags": True}, "parser: no_tags was None, is True"),
        ({"shard_lines": 5}, "shard_lines: was 2, is 5"),
        ({}, "/.*text has changed"),
    ],
)
def test_other_options_are_refused(half, options, message):
    text, lines = half.text.read_bytes(), options.pop("shard_lines", 2)
    if "text" in message:
        half.text.write_bytes(text.replace(b"a", b"e", 1))
    with pytest.raises(InputError, match=rf"parts: .* or inputs \({message}\); .*remove the"):
        half.parse(ParserSettings(**{"parser": "conllu", **options}), lines)
    half.text.write_bytes(text)
    assert half.parse() == 1
    half.ends_as_undisturbed()


def test_remedies_are_not_other_options(half):
    assert half.parse(ParserSettings("conllu", on_failure="flat", several_roots="first")) == 1


def test_a_source_that_changes_meanwhile_is_noticed(half):
    work = half.planned()
    half.work(work)
    with open(half.text, "a") as file:
        file.write("more\n")
    with pytest.raises(InputError, match="changed while it was parsed"):
        join(work)
    assert not half.out.exists()


# Damaged shards, and damaged files beside them.


def write_marker(text: str):
    return lambda parts: (parts / "done/00002.json").write_text(text)


def change_output(change):
    def changed(parts: Path) -> None:
        path = parts / "done/00002/out.conllu"
        path.write_bytes(change(path.read_bytes()))

    return changed


@pytest.mark.parametrize(
    "damage",
    [
        change_output(lambda old: old.replace(b"\t0\t", b"\t1\t", 1)),
        change_output(lambda old: old[:-100]),
        lambda parts: (parts / "done/00002/out.conllu").unlink(),
        *map(write_marker, ("", "[]", "null", "{}", '{"key": 1}', "[" * 100_000)),
        write_marker('{"key": 1, "answer": 2}'),
    ],
)
def test_a_damaged_shard_is_noticed_and_repaired(half, damage):
    damage(half.parts)
    message = r"done/00002: shard outputs are missing or damaged; run the same command"
    with pytest.raises(InputError, match=message):
        half.parse()
    assert not half.out.exists() and half.planned().pending() == [2]
    assert half.parse() == 1
    half.ends_as_undisturbed()


def test_a_damaged_copy_of_the_source_is_noticed(half):
    copy = half.parts / "input/00001/text"
    copy.write_bytes(copy.read_bytes().replace(b"a", b"e", 1))
    with pytest.raises(InputError, match=r"00001/text: the file of this shard was modified"):
        half.parse()


def test_parts_without_a_plan(half):
    (half.parts / "plan.json").unlink()
    with pytest.raises(InputError, match=r"parts: the folder contains no plan\.json; remove the"):
        half.parse()


@pytest.mark.parametrize(
    "change",
    [
        lambda about: (about.clear(), about.update(source={}, shards=[])),  # of version 0.2.0
        lambda about: about.pop("key"),
        lambda about: about.pop("sha256"),
        lambda about: about.update(answer=[]),
        lambda about: about["answer"]["shards"].pop(),
        lambda about: about["answer"]["shards"][1].update(start=1),
    ],
)
def test_a_damaged_plan_is_named(half, change):
    path = half.parts / "plan.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match=f"^{path}: .*damaged.*; remove {half.parts}$"):
        half.parse()


@pytest.mark.parametrize("fault", ["fewer", "more", "order"])
def test_what_was_written_is_read_back(half, monkeypatch, fault):
    """A shard counts only if the trees in its file are those of its lines."""
    write = whole_run.block

    def faulty(line, parsed, number):
        if number == 4:
            line = {"fewer": "", "more": line, "order": "other words"}[fault]
            if fault == "fewer":
                return ""
        return write(line, parsed, number) * (2 if fault == "more" else 1)

    monkeypatch.setattr(whole_run, "block", faulty)
    with pytest.raises(
        InputError, match=r"trees in this file do not match the 2 lines \(3 to 4 of the source"
    ):
        half.parse()
    assert half.planned().pending() == [1]


def test_a_full_disk_is_named(half, monkeypatch):
    def full(line, parsed, number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_run, "block", full)
    with pytest.raises(OSError) as error:
        half.parse()
    assert error.value.filename == str(half.parts / "done/00001/out.conllu")
    assert half.planned().pending() == [1] and not list((half.parts / "done/00001").iterdir())


# What is said of jobs that failed.


def failed(half: Files, logs: dict[int, str], shards=(0, 1, 2), per_task: int = 1) -> list[str]:
    """Of an array over all shards, of which only the second is not done."""
    work = half.planned()
    jobs = Jobs(work.logs, Submitted("12", "13", list(shards), per_task))
    jobs.save()
    jobs.logs.mkdir()
    for task, log in logs.items():
        (jobs.logs / f"12_{task}.out").write_text(log)
    return Jobs.of(work.logs).failures(work)


LOG = """\
0: fairseq_posattn.files.files.InputError: text:5: the parser failed
srun: error: n1: task 0: Exited with exit code 1
srun: launch/slurm: _step_signal: Terminating StepId=5.0
"""


def test_what_failed(half):
    assert failed(half, {1: LOG}, shards=(0, 1, 1)) == [
        f"2 of 3 tasks of Slurm job 12 failed; the last lines of their logs in "
        f"{half.parts}/logs/slurm_logs:",
        "12_1.out: fairseq_posattn.files.files.InputError: text:5: the parser failed",
        "12_2.out: the file is missing, because the task did not start",
    ]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("\n \n", "empty"),
        ("srun: error: n1: task 0: Exited with exit code 1\n", "srun: error: n1: task 0: Exited"),
        ("slurmstepd-n1: error: *** STEP CANCELLED\nsrun: error: n1: x\n", "slurmstepd-n1"),
    ],
)
def test_the_last_line_of_a_log(half, log, line):
    assert failed(half, {0: log}, per_task=2)[1].startswith(f"12_0.out: {line}")


@pytest.mark.parametrize("content", ["[]", '{"array": 7}', ""])
def test_a_damaged_list_of_jobs(half, content):
    (half.parts / "logs/jobs.json").write_text(content)
    with pytest.raises(InputError, match=r"jobs\.json: .*remove it if squeue shows no job"):
        half.parse()
