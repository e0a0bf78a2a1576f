"""posattn prepare --treebank: sentences of treebanks that have a translation become data.

The treebanks are made by hand: tokens of several words, an empty node, words without a space
between them, and all ways in which a sentence may lack its partner.
"""

import gzip
import json
import lzma
from pathlib import Path

import pytest
from fairseq.data import Dictionary, indexed_dataset

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.pipeline import TextPipeline
from support.files import lines_of
from support.raw_corpus import contents, prepare, stored_trees

WORDS = ("--segmenter", "words", "--target-tokenize", "spaces")


def row(number, form: str, head="_", relation: str = "_", misc: str = "_") -> str:
    return f"{number}\t{form}\t_\tX\t_\t_\t{head}\t{relation}\t_\t{misc}"


def block(*rows: str, **comments: str) -> str:
    return "\n".join([*(f"# {name} = {text}" for name, text in comments.items()), *rows]) + "\n\n"


HOUSE = (
    row("1-2", "im"),
    row(1, "in", 3, "case"),
    row(2, "dem", 3, "det"),
    row(3, "Haus", 0, "root", "SpaceAfter=No"),
    row("3.1", "ist"),
    row(4, "!", 3, "punct"),
)
DOG = (row(1, "der", 2, "det"), row(2, "Hund", 0, "root"), row(3, "10\u00a0000", 2, "nummod"))
BARKS = (row(1, "er", 2, "nsubj"), row(2, "bellt", 0, "root"))


def write_treebanks(folder: Path) -> tuple[list[Path], list[Path]]:
    """Treebanks of the source, whose comments have translations, and of the target."""
    folder.mkdir()
    train = [
        block(*HOUSE, sent_id="a", text="im Haus!", text_en="in the house !", other="1"),
        block(*DOG, sent_id="b", text_en="the dog 10 000", other="2"),
        block(*BARKS, sent_id="c", text_en="...", other="3"),
        block(*BARKS, sent_id="d", text_en="", other="4"),
        block(*BARKS, sent_id="e", other="5"),
        block(*BARKS, text_en="he barks"),
        block(text_en="no words"),
    ]
    others = [block(*DOG, sent_id="v", text_en="the dog"), block(*BARKS, sent_id="t", text_en="he")]
    target = [
        block(row(1, "dog", 0, "root"), sent_id="b", text="the  dog.", other="9"),
        block(row(1, "off", 0, "root"), sent_id="z", other="3"),
        block(
            *(row("1-2", "don't", misc="SpaceAfter=No"), row(1, "do", 0, "root")),
            *(row(2, "n't", 1, "advmod"), row("2.1", "we"), row(3, "!", 1, "punct")),
            *(row(4, "go", 1, "conj"), row(5, "on", 4, "compound:prt")),
            sent_id="a",
            other="1",
        ),
    ]
    barks = row(1, "barks", 0, "root")
    of_others = [block(barks, sent_id="v"), block(barks, sent_id="t")]
    files: tuple[list[Path], list[Path]] = ([], [])
    for side, (name, splits) in enumerate((("de", [train, *others]), ("en", [target, *of_others]))):
        for split, blocks in zip(("train", "dev", "test"), splits, strict=True):
            path = folder / f"{name}-{split}.conllu"
            path.write_text("".join(blocks))
            files[side].append(path)
    return files


@pytest.fixture
def treebanks(tmp_path) -> tuple[list[Path], list[Path]]:
    return write_treebanks(tmp_path / "treebanks")


def options(treebanks: list[Path], *more) -> list:
    return ["--source", "de", "--target", "en", "--treebank", *treebanks, *more]


def made(out: Path, split: str, kind: str) -> list[str]:
    return lines_of(Path(f"{out}.work") / f"{split}.{kind}")


def trees(data: Path, split: str) -> list[list[tuple[int, int]]]:
    """Parent and number of pieces of each word of each sentence."""
    return [list(zip(*both, strict=True)) for both in stored_trees(data, split)]


def test_translations_in_comments(treebanks, tmp_path, capsys):
    """The pieces are the tokens of the treebank, each with the words of its tree."""
    out = tmp_path / "data"
    prepare(
        *options(treebanks[0], "--target-comment", "text_en", *WORDS, "--separate", "--out", out)
    )
    assert made(out, "train", "clean.de") == ["im Haus !", "der Hund 10\u2423000", "er bellt"]
    assert made(out, "train", "clean.en") == ["in the house !", "the dog 10 000", "he barks"]
    im_haus, dog, barks = trees(out, "train")
    assert [parent for parent, _ in im_haus] == [3, 3, 0, 3]
    assert sum(count for _, count in im_haus[:2]) == 1
    assert im_haus[2:] == [(0, 1), (3, 1)]
    assert dog == [(2, 1), (0, 1), (2, 1)] and barks == [(2, 1), (0, 1)]
    said = capsys.readouterr().err
    assert "train.conllu: 3 sentences have a translation; left out: 3 without a text_en" in said
    assert "(c, d, e), 1 without words (line 40); see " in said
    [first, *_] = made(out, "train", "treebank.left_out")
    assert first.split("\t") == [f"{treebanks[0][0]}:19", "c", "without a text_en"]
    relations = Dictionary.load(str(out / "dict.de.relations.txt")).symbols
    assert {"case", "nummod", "punct"} <= set(relations)
    known = Dictionary.load(str(out / "dict.en.txt"))
    data = indexed_dataset.make_dataset(str(out / "train.de-en.en"), "mmap")
    assert known.string(data[2]) == "he barks"
    assert (out / "dict.de.txt").read_text() != (out / "dict.en.txt").read_text()


def test_new_text_is_split_into_words(treebanks, tmp_path):
    out = tmp_path / "data"
    prepare(*options(treebanks[0], "--target-comment", "text_en", *WORDS, "--out", out))
    pipeline = TextPipeline.load(out)
    assert pipeline.segmenter.segment(pipeline.source_text("im  Haus „so“ !")) == [
        *("im", "Haus", "„so“", "!")
    ]
    assert pipeline.segmenter.spans("im Haus") == [(0, 2), (2, 6)]
    assert pipeline.detokenized(pipeline.segmenter.join("in the house !")) == "in the house !"
    about = json.loads((out / "prepare.json").read_text())
    assert [about[key] for key in ("normalize", "tokenize", "segmenter")] == [
        False,
        "spaces",
        "words",
    ]
    assert about["parser"]["parser"] == "conllu"


def test_a_second_treebank_has_the_translations(treebanks, tmp_path, capsys):
    """Its raw text is taken, or what the tokens spell; treebanks may be packed."""
    source, target = treebanks
    for path, pack in ((source[0], lzma.compress), (target[0], gzip.compress)):
        end = ".xz" if pack is lzma.compress else ".gz"
        Path(f"{path}{end}").write_bytes(pack(path.read_bytes()))
        path.unlink()
    source[0], target[0] = Path(f"{source[0]}.xz"), Path(f"{target[0]}.gz")
    out = tmp_path / "data"
    prepare(*options(source, "--target-treebank", *target, *WORDS, "--out", out))
    assert made(out, "train", "treebank.de") == ["im Haus !", "der Hund 10\u2423000"]
    assert made(out, "train", "treebank.en") == ["don't! go on", "the  dog."]
    assert made(out, "train", "clean.en") == ["don't! go on", "the dog."]
    said = capsys.readouterr().err
    assert f"left out: 4 without a partner in {target[0]} (c, d, e, line " in said
    assert f"1 of {target[0]} without a partner (z); see " in said
    assert len(made(out, "train", "treebank.left_out")) == 6


def test_sentences_are_aligned_by_another_comment(treebanks, tmp_path):
    source, target = treebanks
    more = ["--target-treebank", target[0], "--align-by", "other", *WORDS]
    prepare(*options(source[:1], *more, "--out", tmp_path / "data"))
    assert made(tmp_path / "data", "train", "treebank.en") == ["don't! go on", "off"]
    assert made(tmp_path / "data", "train", "treebank.de") == ["im Haus !", "er bellt"]


def test_control_trees_and_data_without_trees(treebanks, tmp_path):
    """They are those of the same words, and take the work folder of the gold trees."""
    basic = options(
        treebanks[0], "--target-comment", "text_en", *WORDS, "--work", tmp_path / "work"
    )
    prepare(*basic, "--out", tmp_path / "own")
    prepare(*basic, "--control", "chain", "--out", tmp_path / "chain")
    prepare(*basic, "--parser", "none", "--out", tmp_path / "none")
    assert trees(tmp_path / "chain", "train")[2] == [(0, 1), (1, 1)]
    assert trees(tmp_path / "own", "train")[2] == [(2, 1), (0, 1)]
    own, none = contents(tmp_path / "own"), contents(tmp_path / "none")
    assert own["train.de-en.de.bin"] == none["train.de-en.de.bin"]


def twice(path: Path) -> None:
    path.write_text(path.read_text().replace("sent_id = c", "sent_id = a").replace("= z", "= a"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target-treebank", 0, 1], "--treebank has 3 files, but --target-treebank has 2; give"),
        ([], "--treebank needs exactly one source of translations; specify a comment"),
        (["--target-treebank", 0, 1, 2, "--target-comment", "x"], "--treebank needs exactly one"),
        (["--target-comment", "text_fr"], "no sentence has a translation (6 without"),
        (["--target-treebank", 0, 1, 2, "--align-by", "x"], "another comment with --align-by"),
        (["--target-comment", "text_en", "--train", "x"], "--train contradicts --treebank, which"),
    ],
)
def test_what_does_not_fit(treebanks, more, message, tmp_path):
    more = [treebanks[1][word] if isinstance(word, int) else word for word in more]
    with pytest.raises(InputError) as raised:
        prepare(*options(treebanks[0], *more, *WORDS, "--out", tmp_path / "data"))
    assert message in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "data").exists()
    assert not list(tmp_path.rglob("*.treebank.*"))


@pytest.mark.parametrize(("side", "lines"), [(0, (19, 1)), (1, (10, 6))])
def test_two_sentences_of_one_name(treebanks, side, lines, tmp_path):
    source, target = treebanks
    twice(treebanks[side][0])
    with pytest.raises(InputError) as raised:
        more = ["--target-treebank", *target, *WORDS, "--out", tmp_path / "data"]
        prepare(*options(source, *more))
    expected = f"{treebanks[side][0]}:{lines[0]}: the sentence in line {lines[1]} also has sent_id"
    assert str(raised.value).startswith(f"{expected} = a; make the names unique")
    assert not list(tmp_path.rglob("*.treebank.*"))


def test_translations_without_a_treebank(tmp_path):
    raw = ["--source", "de", "--target", "en", "--train", "x", "--target-comment", "text_en"]
    with pytest.raises(InputError, match="need source trees; pass the source treebanks"):
        prepare(*raw, "--out", tmp_path / "data")
