"""plan.json and the records of a parse are checked before anything relies on them."""

import json
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.run import parse
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.lines import LineWork, do_shard, join
from support.parse_toys import planned_parse

SETTINGS = ParserSettings(parser="conllu", lang="de", tokenized=True)
LINES = 5


@pytest.fixture
def work(tmp_path) -> LineWork:
    """Return a parse of five lines in three shards, all done, not joined."""
    text, trees = tmp_path / "text", tmp_path / "given.conllu"
    text.write_text("".join(f"w{k}\n" for k in range(LINES)))
    trees.write_text("".join(f"1\tw{k}" + "\t_" * 4 + "\t0\troot\t_\t_\n\n" for k in range(LINES)))
    work = planned(tmp_path)
    for k in range(3):
        do_shard(work, k)
    return work


def planned(folder: Path) -> LineWork:
    text, out, trees = (folder / name for name in ("text", "out.conllu", "given.conllu"))
    return planned_parse(text, out, SETTINGS, 2, trees)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.pop("key"),
        lambda about: about.pop("sha256"),
        lambda about: about.update(answer=[]),
        lambda about: about["answer"]["shards"].pop(),
        lambda about: about["answer"]["shards"][1].update(start=1),
    ],
)
def test_a_damaged_plan_is_named(work, change):
    path = work.folder / "plan.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match=f"^{path}: .*damaged.*; remove {work.folder}$"):
        planned(work.folder.parent)


@pytest.mark.parametrize(
    "marker", ["", "[]", "null", "{}", '{"key": 1}', "[" * 100_000, '{"key": 1, "answer": 2}']
)
def test_a_damaged_record_makes_its_shard_undone(work, marker):
    expected = [path.read_bytes() for path in sorted(work.folder.glob("done/*/*.conllu"))]
    work.marker(1).write_text(marker)
    with pytest.raises(InputError, match="done/00001: the outputs of this shard are missing or"):
        join(work)
    assert work.pending() == [1]
    do_shard(work, 1)
    join(work)
    assert Path(work.step.outputs[0]).read_bytes() == b"".join(expected)


def test_notes_that_are_not_as_they_were_written(work):
    about = json.loads(work.marker(1).read_text())
    work.marker(1).write_text(json.dumps({**about, "answer": {"notes": [1]}}))
    with pytest.raises(InputError, match="done/00001: the outputs of this shard are missing or"):
        join(work)


# What an earlier version has left.


def test_parts_of_an_earlier_version_begin_anew(work, capsys):
    (work.folder / "plan.json").write_text('{"source": {}, "parser": {}, "shards": []}')
    assert planned(work.folder.parent).pending() == [0, 1, 2]
    assert capsys.readouterr().err == (
        f"{work.folder}: this parse was started by an earlier version, so it starts from the "
        "beginning\n"
    )


def test_a_result_of_an_earlier_version_counts(work, capsys):
    join(work)
    text, trees, out = *work.step.inputs, work.step.outputs[0]
    files = {"source": fingerprint(text), "trees": fingerprint(trees), "result": fingerprint(out)}
    about = {**files, "parser": SETTINGS.describe(), "lines": LINES, "notes": [], "shown": True}
    Path(f"{out}.json").write_text(json.dumps(about))
    parse(text, out, SETTINGS, Cluster(), trees=trees)
    assert capsys.readouterr().err == (
        f"{out}: {LINES} lines, {LINES} trees, parsed and checked before\n"
    )
