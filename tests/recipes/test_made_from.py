"""recipes/made_from.py: a recipe goes on only with what the same options and files made."""

import json
import sys
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from support.commands import ROOT, run, script

PROGRAM = ROOT / "recipes/made_from.py"
made_from = script(PROGRAM)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "corpus").write_text("a b c\n")
    return tmp_path


def claim(folder: Path, *, made=("result",), seed="1", training="", **files: str) -> str:
    """Return what the program prints, for these options and files of a folder."""
    files = {"corpus": "corpus", **files}
    result = run(
        *(sys.executable, PROGRAM, folder / "made_from/run.json"),
        *("--made", *(folder / name for name in made)),
        *("--options", f"seed={seed}", f"training={training}"),
        *("--files", *(f"{name}={folder / path}" for name, path in files.items())),
        check=False,
    )
    assert (result.returncode == 0) == (result.stdout == "")
    return result.stdout


def test_the_same_goes_on_and_others_are_refused(folder):
    assert claim(folder) == ""
    (folder / "result").touch()
    assert claim(folder) == ""
    before = (folder / "made_from/run.json").read_bytes()
    remedy = "; name another folder with --work, or remove this one\n"
    start = f"error: {folder / 'result'} was made from something else: "
    assert claim(folder, seed="2") == f"{start}seed was '1', is now '2'{remedy}"
    assert claim(folder, training="--max-epoch 7") == (
        f"{start}training was not given, is now '--max-epoch 7'{remedy}"
    )
    (folder / "vectors").touch()
    assert claim(folder, vectors="vectors") == f"{start}the file 'vectors' has changed{remedy}"
    (folder / "corpus").write_text("a b d\n")
    assert claim(folder) == f"{start}the file 'corpus' has changed{remedy}"
    assert "No such file" in claim(folder, vectors="nothing")
    assert (folder / "made_from/run.json").read_bytes() == before
    (folder / "corpus").write_text("a b c\n")
    assert claim(folder) == ""


def test_names_and_times_of_files_do_not_count(folder):
    claim(folder)
    (folder / "result").touch()
    (folder / "corpus").rename(folder / "elsewhere")
    assert claim(folder, corpus="elsewhere") == ""


def test_results_that_nobody_knows_anything_of(folder):
    """An older version made them, or somebody else."""
    (folder / "result").touch()
    assert "result: no record says what this was made from; name another" in claim(folder)
    assert not (folder / "made_from").exists()


def test_what_was_removed_may_be_made_from_something_else(folder):
    claim(folder)
    (folder / "run").mkdir()  # nothing is in it yet
    assert claim(folder, made=("result", "run"), seed="2") == ""
    (folder / "run/log").touch()
    assert "seed was '2', is now '1'" in claim(folder, made=("result", "run"))


def test_a_record_inside_of_the_folder_that_was_made(folder):
    record = folder / "work/made_from.json"
    now = {"options": {"seed": "1"}, "files": {}}
    made_from.check(record, [folder / "work"], now, "mend it")
    other = {"options": {"seed": "2"}, "files": {}}
    made_from.check(record, [folder / "work"], other, "mend it")  # nothing else is there
    (folder / "work/data").touch()
    made_from.check(record, [folder / "work"], other, "mend it")
    with pytest.raises(InputError, match="seed was '2', is now '1'; mend it"):
        made_from.check(record, [folder / "work"], now, "mend it")
    for damage in ("{", "[]", '{"options": null}'):
        record.write_text(damage)
        with pytest.raises(InputError, match="damaged"):
            made_from.check(record, [folder / "work"], now, "mend it")


def test_long_values_are_shown_from_their_first_difference():
    start = "--encoder-embed-dim 16 --char-filters 16 --encoder-layers 1 --max-epoch"
    before, now = ({"options": {"training": f"{start} {n}"}, "files": {}} for n in (3, 4))
    assert list(made_from.differences(before, now)) == ["training was '... 3', is now '... 4'"]


def test_messages_stay_short(folder):
    before = {"options": {f"option{n}": "x" * 500 for n in range(9)}, "files": {}}
    (folder / "run.json").write_text(json.dumps(before))
    now = {"options": {}, "files": {}}
    with pytest.raises(InputError, match="and 6 more; mend it") as raised:
        made_from.check(folder / "run.json", [folder / "corpus"], now, "mend it")
    assert len(str(raised.value)) < len(str(folder)) + 350


def test_a_part_of_what_is_known(folder):
    """Without the other files and options, and before anything is known."""
    program = [sys.executable, PROGRAM, folder / "made_from/run.json", "--made", folder / "result"]
    part = [*program, "--part", "--files", f"corpus={folder / 'corpus'}"]
    run(*part)
    assert not (folder / "made_from").exists()
    (folder / "other").write_text("x\n")
    assert claim(folder, other="other") == ""
    (folder / "result").touch()
    run(*part)
    (folder / "corpus").write_text("changed\n")
    result = run(*part, check=False)
    assert result.returncode == 1 and "the file 'corpus' has changed" in result.stdout
