"""plan.json and the markers of a sharded parse are checked before anything relies on them."""

import json
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.parsing.join import join
from fairseq_posattn.text.parsing.plan import plan
from fairseq_posattn.text.parsing.sharded_parse import ShardedParse
from fairseq_posattn.text.parsing.worker import do_shard

SETTINGS = ParserSettings(parser="conllu", lang="de", tokenized=True)
LINES = 5


@pytest.fixture
def work(tmp_path) -> ShardedParse:
    """Return a parse of five lines in three shards, all done, not joined."""
    text, trees = tmp_path / "text", tmp_path / "given.conllu"
    text.write_text("".join(f"w{k}\n" for k in range(LINES)))
    trees.write_text("".join(f"1\tw{k}" + "\t_" * 4 + "\t0\troot\t_\t_\n\n" for k in range(LINES)))
    work = planned(tmp_path)
    for k in range(3):
        do_shard(work, k)
    return work


def planned(folder: Path) -> ShardedParse:
    text, out, trees = (str(folder / name) for name in ("text", "out.conllu", "given.conllu"))
    return plan(text, out, SETTINGS, 2, trees)


def change_plan(work: ShardedParse, change) -> Path:
    path = work.folder / "plan.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: about.pop("shards"), "shards is missing"),
        (lambda about: about.update(shards=None), "shards is null, expected a list"),
        (lambda about: about.update(new=1), '"new" is not known to this version'),
        (lambda about: about.update(source=[]), r"source is \[\], expected an object"),
        (lambda about: about["shards"][1].update(start="2"), r'shards\[1\].start is "2"'),
        (lambda about: about["shards"][1].update(lines=True), r"shards\[1\].lines is true"),
        (lambda about: about["shards"][1].update(lines=0), r"shards\[1\].lines is 0"),
        (lambda about: about["shards"][1].update(start=1), r"shards\[1\].start is 1 after 2 lines"),
        (lambda about: about["shards"].pop(1), r"shards\[1\].start is 4 after 2 lines"),
    ],
)
def test_a_damaged_plan_is_named(work, change, message):
    path = change_plan(work, change)
    with pytest.raises(InputError, match=f"^{path}: .*{message}.*; remove {work.folder}$"):
        planned(work.folder.parent)


def cut_off(about: dict) -> None:
    del about["shards"][-1]


def of_other_lines(about: dict) -> None:
    about["shards"][1]["sha256"] = about["shards"][0]["sha256"]


@pytest.mark.parametrize("change", [cut_off, of_other_lines])
def test_a_plan_that_is_not_of_the_source_does_not_become_a_result(work, change):
    change_plan(work, change)
    with pytest.raises(InputError, match=r"plan\.json: "):
        join(planned(work.folder.parent))
    assert not Path(work.out).exists()


@pytest.mark.parametrize(
    "marker",
    ["", "[]", "null", "1", "{}", '{"bytes": 1}', "[" * 100_000]
    + ['{"bytes": "1", "sha256": 1, "lines": 2, "notes": []}'],
)
def test_a_damaged_marker_makes_its_shard_undone(work, marker):
    expected = [path.read_bytes() for path in sorted(work.folder.glob("done/*.conllu"))]
    work.marker(1).write_text(marker)
    with pytest.raises(InputError, match=r"00001\.conllu: the file is missing, or was damaged"):
        join(work)
    assert work.pending() == [1]
    do_shard(work, 1)
    join(work)
    assert Path(work.out).read_bytes() == b"".join(expected)


@pytest.mark.parametrize("notes", [1, [1], [[1]], [["1", "cut"]], [[1, 2]], [[True, "cut"]], {}])
def test_damaged_notes(work, notes):
    about = json.loads(work.marker(1).read_text())
    work.marker(1).write_text(json.dumps({**about, "notes": notes}))
    with pytest.raises(InputError, match=r"00001\.conllu: the file is missing, or was damaged"):
        join(work)
