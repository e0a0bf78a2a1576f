"""prepare.json is checked, the segmenter beside it, too; damaged stamps and merges."""

import json
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.jobs.step_records import Steps
from fairseq_posattn.text.pipeline import CHECKSUM, TextConfig, TextPipeline
from support.in_process import end_of

MERGES = "#version: 0.2\nH u\nHu nd</w>\n"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder of data as far as new text is concerned."""
    (tmp_path / "segmenter").write_text(MERGES)
    TextPipeline(TextConfig("de", "en", tokenize="spaces"), tmp_path).save(tmp_path)
    return tmp_path


def change(folder: Path, **changes) -> None:
    """A value in prepare.json; None takes the key away."""
    path = folder / "prepare.json"
    about = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in about.items() if value is not None}))


def pieces(folder: Path) -> list[str]:
    return TextPipeline.load(folder).segmenter.segment("Hund")


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        pieces(folder)
    return str(raised.value)


@pytest.mark.parametrize(("code", "text"), [("de", "am 3. Mai"), ("", "am 3 . Mai")])
def test_moses_gets_the_language_that_the_name_means(tmp_path, code, text):
    """Data of an earlier version do not say it, and Moses takes the name itself as before."""
    (tmp_path / "segmenter").write_text(MERGES)
    codes = {"source_code": code, "target_code": code} if code else {}
    TextPipeline(TextConfig("deu", "ger", tokenize="moses", **codes), tmp_path).save(tmp_path)
    pipeline = TextPipeline.load(tmp_path)
    assert pipeline.source_text("am 3. Mai") == pipeline.target_text("am 3. Mai") == text


def test_data_of_an_earlier_version_have_no_checksum(folder):
    change(folder, **{CHECKSUM: None})
    assert pieces(folder) == ["Hu@@", "n@@", "d"]


def test_another_segmenter_is_refused(folder):
    (folder / "segmenter").write_text(MERGES.replace("H u", "n d"))
    message = refused(folder)
    assert message.startswith(f"{folder}/segmenter: the checksum differs from that of the")


def test_a_missing_segmenter(folder):
    (folder / "segmenter").unlink()
    assert "segmenter: the file is missing, but prepare.json names it" in refused(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"new": 1}, '"new" is not a known key'),
        ({"source": None}, "source is missing"),
        ({"normalize": "false"}, 'normalize is "false", expected true or false'),
        ({"tokenize": "nltk"}, 'tokenize is "nltk", expected moses or stanza or spaces'),
        ({"segmenter_file": "../segmenter"}, "expected a name without a folder"),
        ({"separator": ""}, "expected one word"),
        ({"parser": []}, r"parser is [], expected an object"),
        (
            {"parser": {"parser": "spacy"}},
            'parser.parser is "spacy", expected stanza or local or conllu',
        ),
        ({"parser": {"max_words": 0}}, "parser.max_words is 0, expected"),
        ({"version": 2}, "by another version"),
    ],
)
def test_what_prepare_json_cannot_say(folder, changes, message):
    change(folder, **changes)
    found = refused(folder)
    assert found.startswith(f"{folder}/prepare.json: ") and message in found
    assert found.endswith("; prepare the data again")


@pytest.mark.parametrize("stamp", ["[]", '{"key": 1, "outputs": 2}', "", "[" * 100_000])
def test_a_damaged_stamp_counts_for_nothing(tmp_path, stamp):
    steps, out = Steps(tmp_path), tmp_path / "out"
    for _ in range(2):
        steps.do("one", "choice", [], [out], lambda: out.write_text("made"))
    out.write_text("lost")
    (tmp_path / "steps/one.json").write_text(stamp)
    steps.do("one", "choice", [], [out], lambda: out.write_text("made again"))
    assert out.read_text() == "made again"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("#version: 0.2\nH u\n\nn d\n", 3, "expected two pieces to merge, found ''"),
        ("#version: 0.2\nH u n\n", 2, "expected two pieces to merge, found 'H u n'"),
        ("#version: 0.2\nH \r u\n", 2, "expected two pieces to merge, found 'H \\r u'"),
        ("#version: 0.3\nH u\n", 1, "found '#version: 0.3', but only the first"),
        ("H u\n#version: 0.2\nn d\n", 2, "found '#version: 0.2', but only the first"),
        ("#version: 0.2\n", None, "the file contains no merges"),
    ],
)
def test_damaged_merges_are_named(tmp_path, text, line, message):
    codes = tmp_path / "codes"
    codes.write_text(text)
    (tmp_path / "text").write_text("Hund\n")
    options = ["apply", tmp_path / "text", "--codes", codes, "--out", tmp_path / "out"]
    result = end_of("segment", *options)
    where = f"{codes}:{line}" if line else str(codes)
    assert result.startswith(f"error: {where}: {message}")
    assert not (tmp_path / "out").exists()
