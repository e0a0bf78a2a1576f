"""posattn prepare does the steps from line to line in shards where a text is long."""

import codecs
import random
import re
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs import running
from fairseq_posattn.jobs.running import blocks
from fairseq_posattn.jobs.step_records import StepRecord
from fairseq_posattn.preparation.job import STEP_SHARD, Job
from support.commands import step
from support.files import lines_of
from support.killed import killed_at
from support.raw_corpus import CONTROLLED, KINDS, SIZES, contents, prepare

pytest.importorskip("stanza")
SHARD = 25  # lines; the other splits have fewer


@pytest.fixture
def shards(monkeypatch) -> list[str]:
    """Cut training texts into shards; the names of the steps whose shards were done."""
    done, do_shard = [], running.do_shard

    def counted(work, k: int) -> None:
        done.append(work.step.name)
        do_shard(work, k)

    monkeypatch.setattr(Job, "step_lines", SHARD)
    monkeypatch.setattr(running, "do_shard", counted)
    return done


def between(data: Path) -> dict[str, bytes]:
    """The files between the steps, but for what the parser says of its own work."""
    files = [path for path in Path(f"{data}.work").iterdir() if path.is_file()]
    return {path.name: path.read_bytes() for path in files if ".conllu" not in path.name}


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("kind", [*KINDS, *CONTROLLED])
def test_the_bytes_are_those_of_one_run(corpus, tmp_path, kind, request):
    whole, out = corpus.data(kind), tmp_path / "data"
    shards = request.getfixturevalue("shards")  # after the whole data were made
    prepare(*corpus.options(*(KINDS | CONTROLLED)[kind], "--out", out))
    assert contents(out) == contents(whole)
    assert between(out) == between(whole)
    steps = {"normalize.train.de", "normalize.train.en", "segment.train.de", "segment.train.en"}
    assert {step.split(".", 1)[0] for step in shards} >= {"filter", "dictionaries", "binarize"}
    assert steps <= set(shards) and not any(".valid" in step for step in shards)
    assert shards.count("normalize.train.de") == -(-SIZES["train"] // SHARD)
    assert not list(Path(f"{out}.work/shards").iterdir())


@pytest.mark.long(ci=True)
def test_several_data_folders(corpus, shards, tmp_path):
    """Each of them is made of several shards of lines."""
    options = corpus.options(*KINDS["moses"], "--shards", 2, "--parser", "none")
    prepare(*options, "--out", tmp_path / "cut")
    assert {"binarize.shard0.no_trees", "binarize.shard1.no_trees"} <= set(shards)
    with mock.patch.object(Job, "step_lines", 1000):  # in one piece
        prepare(*options, "--out", tmp_path / "whole")
    for k in range(2):
        assert contents(tmp_path / f"cut/shard{k}") == contents(tmp_path / f"whole/shard{k}")


@pytest.mark.long
def test_two_workers(corpus, tmp_path):
    """The real command, whose workers are processes of their own."""
    options = corpus.options(*KINDS["spaces"], "--parser", "none", "--control", "chain")
    prepare(*options, "--out", tmp_path / "whole")
    out = tmp_path / "data"
    step("prepare", *options, "--out", out, "--workers", 2, "--shard-lines", SHARD // STEP_SHARD)
    assert contents(out) == contents(tmp_path / "whole")
    assert not list(Path(f"{out}.work/shards").iterdir())


@pytest.mark.long(ci=True)
def test_killed_again_and_again(corpus, shards, tmp_path):
    """Shards that were done are not done again, and the bytes are the same."""
    rng, out = random.Random(5), tmp_path / "data"
    options = corpus.options(*KINDS["moses"], "--parser", "none", "--out", out)
    kills = went_on = 0
    while killed_at(rng.randrange(40, 300), prepare, *options):
        kills += 1
        went_on += bool(list(Path(f"{out}.work/shards").glob("*/done/00001.json")))
        assert kills < 100
    assert kills > 3 and went_on
    prepare(*corpus.options(*KINDS["moses"], "--parser", "none", "--out", tmp_path / "other"))
    assert contents(out) == contents(tmp_path / "other")
    assert not list(Path(f"{out}.work/shards").iterdir())


@pytest.mark.long(ci=True)
def test_a_step_with_another_choice_begins_anew(corpus, shards, tmp_path):
    out = tmp_path / "data"
    options = corpus.options(*KINDS["moses"], "--parser", "none", "--out", out)
    with (
        mock.patch.object(running, "join", side_effect=InputError("broken off")),
        pytest.raises(InputError, match="broken off"),
    ):
        prepare(*options)
    before = shards.copy()
    prepare(*options, "--no-normalize")
    assert shards.count("normalize.train.de") == 2 * before.count("normalize.train.de")
    prepare(
        *corpus.options(
            *KINDS["moses"], "--parser", "none", "--out", tmp_path / "other", "--no-normalize"
        )
    )
    assert contents(out) == contents(tmp_path / "other")


@pytest.mark.long(ci=True)
def test_dropped_pairs_are_counted_over_all_shards(corpus, shards, tmp_path, capsys):
    said = []
    for name, lines in (("cut", SHARD), ("whole", 1000)):
        with mock.patch.object(Job, "step_lines", lines):
            options = corpus.options(*KINDS["moses"], "--parser", "none", "--out", tmp_path / name)
            prepare(*options)
        said += re.findall("^train: .* pairs were kept.*$", capsys.readouterr().err, re.M)
    assert shards.count("filter.train.no_trees") > 1 and said[0] == said[1]
    kept, lines, *dropped = map(int, re.findall(r"(\d+) (?:of|pairs|with|over)", said[0]))
    assert len(dropped) >= 3 and kept + sum(dropped) == lines == SIZES["train"]


def test_a_few_lines_to_learn_from(corpus, tmp_path):
    """They lie evenly in the text, and other choices stay as they are."""
    options = corpus.options(*KINDS["moses"][:4], "--parser", "none", "--learn-lines", 40)
    prepare(*options, "--out", tmp_path / "data")
    work = tmp_path / "data.work"
    whole = lines_of(work / "train.text.de")
    assert lines_of(work / "train.text.de.sample") == whole[:: len(whole) // 40]
    prepare(*corpus.options(*KINDS["moses"][:4], "--parser", "none", "--out", tmp_path / "all"))
    codes = [(folder / "segmenter").read_bytes() for folder in (work, tmp_path / "all.work")]
    assert codes[0] != codes[1]


MARK = codecs.BOM_UTF8
LINES = st.lists(st.sampled_from([b"a\n", b"\n", MARK + b"b\n", MARK + b"\n"]), min_size=1)


@given(LINES, st.integers(1, 4))
def test_no_shard_begins_with_a_mark_that_a_reader_takes_off(lines, size):
    other = [b"%d\n" % k for k in range(len(lines))]
    found = list(blocks([iter(lines), iter(other)], size))
    assert [line for block, _ in found for line in block] == lines
    assert [line for _, block in found for line in block] == other
    assert all(len(one) == len(two) for one, two in found)
    assert not any(block[0].startswith(MARK) for block, _ in found[1:])
    assert all(len(block) >= size for block, _ in found[:-1])


def test_shards_are_kept_until_the_step_is_recorded(corpus, shards, tmp_path, monkeypatch):
    """A run that is killed after joining, before its record is written, does no shard again."""
    options = corpus.options(*KINDS["moses"], "--parser", "none", "--out", tmp_path / "data")
    write = StepRecord.write

    def killed(record, path) -> None:
        if record.outputs and Path(path).name == "normalize.train.de.json":
            raise KeyboardInterrupt
        write(record, path)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(StepRecord, "write", killed)
        prepare(*options)
    before = shards.count("normalize.train.de")
    prepare(*options)
    assert shards.count("normalize.train.de") == before > 1
    assert not list((tmp_path / "data.work/shards").iterdir())
