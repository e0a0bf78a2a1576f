"""A run is known by all that makes it."""

import dataclasses
import subprocess

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.runs import (
    Run,
    RunRecord,
    copy_trained,
    fingerprints,
    named_files,
    one_run,
    runs_in,
)
from fairseq_posattn.files import version

RECORD = RunRecord(
    "sequence", "base", 1, 10, "own", ["--lr", "0.1", "--share"], {"dict.en.txt": {"bytes": 1}}
)


def run(tmp_path, **changes) -> Run:
    return Run(tmp_path, dataclasses.replace(RECORD, **changes))


def test_files_that_options_name(tmp_path):
    """A file counts by what is in it, wherever it stands in an option."""
    (tmp_path / "a").write_text("1")
    named = (["--file", f"{tmp_path}/a"], [f"--file={tmp_path}/a"], ["--x", f"NAME={tmp_path}/a"])
    for words in named:
        before = named_files(words)
        assert list(before) == [f"{tmp_path}/a"]
        (tmp_path / "a").write_text((tmp_path / "a").read_text() + "2")
        assert named_files(words) != before
    assert named_files(["--share", "--lr", "0.1", "--seed=", f"{tmp_path}/none", "x" * 5000]) == {}


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"updates": 20}, "--updates was '10', is now '20'"),
        ({"trees": "chain"}, "trees was 'own', is now 'chain'"),
        ({"options": ["--lr", "0.2", "--share"]}, "--lr was '0.1', is now '0.2'"),
        ({"options": ["--lr=0.2", "--share"]}, "--lr was '0.1', is now '0.2'"),
        ({"options": ["--lr", "0.1"]}, "--share was '', is now '-'"),
        ({"options": [*RECORD.options, "--x", "1", "2"]}, "--x was '-', is now '1 2'"),
        ({"files": {"dict.en.txt": {"bytes": 2}}}, "the content of dict.en.txt differs"),
        ({"files": {}}, "the content of dict.en.txt differs"),
    ],
)
def test_whatever_differs_makes_another_run(tmp_path, changes, difference):
    first, other = run(tmp_path), run(tmp_path, **changes)
    assert first.folder != other.folder
    assert first.record_start() == ""
    assert other.record_start() == f"this run differs from {first.folder.name} ({difference})"
    assert {found.folder for found in runs_in(tmp_path)} == {first.folder, other.folder}


def test_a_run_that_goes_on_is_the_same_run_with_another_version(tmp_path, monkeypatch):
    for name in ("0.2.0+aaa", "0.2.0+aaa", "0.3.0"):
        monkeypatch.setattr("fairseq_posattn.experiments.runs.code_version", lambda name=name: name)
        assert run(tmp_path).record_start() == ""
    [found] = runs_in(tmp_path)
    assert found.record.versions == ["0.2.0+aaa", "0.3.0"]
    assert found.folder == run(tmp_path).folder


def test_a_run_that_is_tested_otherwise_takes_the_training_of_the_other(tmp_path, monkeypatch):
    first, other = run(tmp_path), run(tmp_path, name="flipped", tested="own-flip0.1")
    different = run(tmp_path, name="another", updates=20)
    assert (first.record.test_trees, other.record.test_trees) == ("own", "own-flip0.1")
    first.record_start()
    monkeypatch.setattr("fairseq_posattn.experiments.runs.code_version", lambda: "later")
    other.record_start()
    different.record_start()
    (first.folder / "checkpoint_last.pt").write_text("weights")
    (first.folder / "test.hyp").write_text("a translation")
    assert copy_trained(other) is None and not other.is_finished  # the first one still goes on
    first.finish()
    for _ in range(2):  # it may have been killed half-way
        assert copy_trained(other) == first.folder
    assert other.is_finished and (other.folder / "checkpoint_last.pt").read_text() == "weights"
    assert not (other.folder / "test.hyp").exists()
    versions = {one.record.name: one.record.versions for one in runs_in(tmp_path)}
    assert versions["flipped"] == versions["sequence"] != ["later"] == versions["another"]
    assert copy_trained(different) is None and not different.is_finished


@pytest.mark.parametrize("content", ["[]", "{", "{}", '{"name": 1}', "\udcff"])
def test_a_damaged_record_of_a_run(tmp_path, content):
    one = run(tmp_path)
    one.record_start()
    path = one.folder / "run.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    for act in (one.record_start, lambda: runs_in(tmp_path)):
        with pytest.raises(InputError, match=f"{path}: .*; move the folder away, and train again"):
            act()


def test_the_one_run_of_a_name(tmp_path):
    with pytest.raises(InputError, match=r"seed1: it was not trained; run train.sh first"):
        one_run(tmp_path, "sequence.base", 1)
    first, other = run(tmp_path), run(tmp_path, updates=20)
    first.record_start()
    with pytest.raises(InputError, match="seed1: its training is not complete"):
        one_run(tmp_path, "sequence.base", 1)
    first.finish()
    assert one_run(tmp_path, "sequence.base", 1).folder == first.folder
    other.record_start()
    other.finish()
    with pytest.raises(InputError, match=r"seed1 \(--updates was '10', is now '20'\); select"):
        one_run(tmp_path, "sequence.base", 1)


def test_data_of_several_shards_and_files_that_change(tmp_path):
    folders = [tmp_path / name for name in ("shard0", "shard1")]
    for folder in folders:
        folder.mkdir()
        (folder / "train.bin").write_text(folder.name)
        (folder / "test.bin").touch()
    found = fingerprints(folders, ["train.*"])
    assert list(found) == ["shard0/train.bin", "shard1/train.bin"]
    assert list(fingerprints(folders[:1], ["train.*"])) == ["train.bin"]
    (folders[1] / "train.bin").write_text("other")
    now = fingerprints(folders, ["train.*"])
    assert now["shard0/train.bin"] == found["shard0/train.bin"]
    assert now["shard1/train.bin"] != found["shard1/train.bin"]


def test_the_version_of_a_checkout(tmp_path, monkeypatch):
    """It names the commit, and says whether files were changed after it."""
    told = []
    monkeypatch.setattr(version, "CHECKOUT", tmp_path)
    for command in ("init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m x"):
        subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    (tmp_path / "file").write_text("1")
    subprocess.run(["git", "-C", tmp_path, "add", "file"], check=True)
    for _ in range(2):
        version.code_version.cache_clear()
        told.append(version.code_version())
        subprocess.run(["git", "-C", tmp_path, "reset", "-q", "--hard"], check=True)
    version.code_version.cache_clear()
    assert told[0] == f"{told[1]}.changed" and "+" in told[1]
