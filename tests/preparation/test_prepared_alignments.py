"""posattn prepare --alignments: alignments of words become those of pieces, in fairseq's files."""

import random
from pathlib import Path

import pytest
from fairseq.data import indexed_dataset

from fairseq_posattn.errors import InputError
from fairseq_posattn.preparation.job import Job
from support import in_process
from support.files import lines_of, write
from support.raw_corpus import LANGUAGES, contents, prepare

WORDS = ("--segmenter", "words")
SPACES = ("--parser", "none", "--tokenize", "spaces", "--target-tokenize", "spaces")
TRAIN = (  # source, target, alignments
    ("ab ba bab", "ab bc", "2-1 0-0"),
    ("ba", "c ba ab ab", "0-0"),  # more than 3 times longer
    ("bab ab", "cb", ""),
    ("c ba", "ab  bab", " 1-1 1-0  0-1 "),
)
VALID = (("ba ab", "bab c", "0-1 1-0"),)
LINES = 60


@pytest.fixture
def raw(tmp_path) -> Path:
    """Texts with alignments by hand."""
    write_texts(tmp_path, train=TRAIN, valid=VALID, test=VALID)
    (tmp_path / "test.align").unlink()  # fairseq reads none of a test
    return tmp_path


def write_texts(folder: Path, **splits) -> None:
    for split, rows in splits.items():
        for kind, lines in zip(("de", "en", "align"), zip(*rows, strict=True), strict=True):
            write(folder / f"{split}.{kind}", lines)


@pytest.fixture
def long(tmp_path) -> Path:
    """A longer text, whose alignments are by chance; sentence k begins with the word k."""
    rng, rows = random.Random("aligned"), []
    for k in range(LINES):
        source, target = ([f"{k}", *"bcd"[: rng.randint(0, 3)]] for _ in range(2))
        pairs = [f"{rng.randrange(len(source))}-{n}" for n in range(len(target))]
        rows.append((" ".join(source), " ".join(target), " ".join(pairs if k % 3 else [])))
    write_texts(tmp_path, train=rows, valid=rows[:4])
    return tmp_path


def options(raw: Path, *more) -> list:
    splits = [word for s in ("train", "valid", "test") for word in (f"--{s}", raw / s)]
    if not (raw / "test.de").exists():
        splits = splits[:4]
    return ["--source", "de", "--target", "en", *splits, *SPACES, "--alignments", *more]


def binary(data: Path, split: str) -> list[str]:
    """The alignments in the file that fairseq reads, written as in a text."""
    found = indexed_dataset.make_dataset(str(data / f"{split}.align.de-en"), "mmap")
    pairs = [found[k].view(-1, 2).tolist() for k in range(len(found))]
    return [" ".join(f"{source}-{target}" for source, target in line) for line in pairs]


def clean(data: Path, kind: str) -> list[str]:
    return lines_of(Path(f"{data}.work") / f"train.clean.no_trees.{kind}")


def test_words(raw):
    """A pair that is too unequal takes its alignments with it."""
    out = raw / "data"
    prepare(*options(raw, *WORDS, "--out", out))
    assert binary(out, "train") == ["2-1 0-0", "", "1-1 1-0 0-1"]
    assert clean(out, "de") == ["ab ba bab", "bab ab", "c ba"]
    assert binary(out, "valid") == ["0-1 1-0"]
    assert not list(out.glob("test.align.*"))


def test_pieces(raw):
    """One merge is learnt, of a and the b at the end: ab is a piece, ba two, and bab b@@ ab."""
    out = raw / "data"
    prepare(*options(raw, "--symbols", 1, "--max-ratio", 1.5, "--out", out))
    assert clean(out, "de") == ["b@@ ab ab", "c b@@ a"]
    assert clean(out, "en") == ["c@@ b", "ab b@@ ab"]
    assert binary(out, "train") == ["", "1-1 1-2 2-1 2-2 1-0 2-0 0-1 0-2"]
    assert binary(out, "valid") == ["0-2 1-2 2-0 2-1"]


def test_words_of_the_text_after_it_was_tokenised(raw):
    write_texts(raw, train=[("Haus, Hund.", "house, dog.", "0-0 3-3 2-2")] * 3, valid=VALID)
    more = ["--parser", "none", "--tokenize", "moses", "--target-tokenize", "moses", *WORDS]
    prepare(*options(raw, *more, "--out", raw / "data"))
    assert clean(raw / "data", "en") == ["house , dog ."] * 3
    assert binary(raw / "data", "train") == ["0-0 3-3 2-2"] * 3


def test_several_data_folders(long):
    """Alignments go where their sentences go, and validation is in the first folder."""
    prepare(*options(long, *WORDS, "--max-ratio", 9, "--shards", 2, "--out", long / "data"))
    given = lines_of(long / "train.align")
    assert [binary(long / f"data/shard{k}", "train") for k in (0, 1)] == [given[::2], given[1::2]]
    assert binary(long / "data/shard0", "valid") == given[:4]
    assert not list((long / "data/shard1").glob("valid*"))


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("more", [[*WORDS], ["--symbols", 5]], ids=["words", "pieces"])
def test_long_texts_are_binarised_in_shards_to_the_same_bytes(long, more, monkeypatch):
    given = options(long, *more, "--max-length", 5)
    prepare(*given, "--out", long / "whole")
    monkeypatch.setattr(Job, "step_lines", 7)
    prepare(*given, "--out", long / "cut")
    assert contents(long / "cut") == contents(long / "whole")
    assert len(binary(long / "cut", "train")) == len(clean(long / "cut", "de")) > 7


def refused(*given) -> str:
    with pytest.raises(InputError) as raised:
        prepare(*given)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("lines", [1000, 3], ids=["whole", "in shards"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        *(
            (pair, f"'{pair}' is not an alignment; write a pair of word indices")
            for pair in ("1", "a-0", "-1-0")
        ),
        ("2-0", "'2-0' is out of range, because the source has 2 words; count"),
        ("0-2", "'0-2' is out of range, because the target has 2 words; count"),
    ],
)
def test_what_is_no_alignment(raw, line, message, lines, monkeypatch):
    """The line is that of the user's file, and nothing is made of it."""
    monkeypatch.setattr(Job, "step_lines", lines)
    alignments = [text for _, _, text in TRAIN]
    write(raw / "train.align", [*alignments[:3], f"0-0 {line}"])
    said = refused(*options(raw, *WORDS, "--out", raw / "data"))
    assert said.startswith(f"{raw}/train.align:4: {message}")
    assert not (raw / "data").exists()
    assert not list((raw / "data.work").glob("*.pieces.align"))
    write(raw / "train.align", alignments)
    prepare(*options(raw, *WORDS, "--out", raw / "data"))
    assert binary(raw / "data", "train") == ["2-1 0-0", "", "1-1 1-0 0-1"]


def test_a_missing_file_and_one_of_other_length_are_refused_before_the_work(long):
    given = options(long, *WORDS, "--out", long / "data")
    alignments = lines_of(long / "train.align")
    write(long / "train.align", alignments[1:])
    said = refused(*given)
    assert f"{long}/train.de has {LINES} lines, but {long}/train.align has {LINES - 1};" in said
    (long / "train.align").unlink()
    said = refused(*given)
    assert said.startswith(f"{long}/train.align: the file is missing, but --alignments reads it;")
    assert "0-0 2-1 for each sentence, or leave out --alignments" in said
    assert not list(long.glob("data.work/*.text.*")) and not (long / "data").exists()


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_file_without_any(long, split):
    """fairseq cannot open a set of data that has no numbers at all."""
    write(long / f"{split}.align", [""] * len(lines_of(long / f"{split}.align")))
    said = refused(*options(long, *WORDS, "--out", long / "data"))
    assert said.startswith(f"{long}/{split}.align: no sentence has an alignment; write alignments")


def test_pieces_of_sentencepiece(raw):
    """Words are those between spaces; a piece belongs to each word that it has a character of."""
    model = ("--segmenter", "sentencepiece", "--symbols", 9, "--max-ratio", 9, "--separate")
    prepare(*options(raw, *model, "--out", raw / "data"))
    sides = [[words_of(line) for line in clean(raw / "data", side)] for side in ("de", "en")]
    for words, (source, target, pairs) in zip(zip(*sides, strict=True), TRAIN, strict=True):
        expected = {
            f"{s}-{t}"
            for pair in pairs.split()
            for s in pieces_of(words[0], source, int(pair[0]))
            for t in pieces_of(words[1], target, int(pair[-1]))
        }
        assert expected or not pairs
        [found] = {line for line in binary(raw / "data", "train") if set(line.split()) == expected}
        assert len(found.split()) == len(expected)


def words_of(pieces: str) -> list[str]:
    return [piece.replace("\u2581", "") for piece in pieces.split()]


def pieces_of(pieces: list[str], text: str, word: int) -> list[int]:
    """Return the pieces of a word, found by the piece and the word of each character."""
    of_piece = [k for k, piece in enumerate(pieces) for _ in piece]
    of_word = [k for k, letters in enumerate(text.split()) for _ in letters]
    assert len(of_piece) == len(of_word)
    return sorted({piece for piece, k in zip(of_piece, of_word, strict=True) if k == word})


def block(words: str, **comments: str) -> str:
    rows = [
        f"{k}\t{word}\t_\tX\t_\t_\t{k - 1}\t{'dep' if k > 1 else 'root'}\t_\t_"
        for k, word in enumerate(words.split(), start=1)
    ]
    return "\n".join([*(f"# {key} = {text}" for key, text in comments.items()), *rows]) + "\n\n"


def test_a_comment_of_a_treebank(tmp_path):
    """Some sentences have it, one of these has no translation; a test needs none."""
    train, valid = tmp_path / "train.conllu", tmp_path / "valid.conllu"
    train.write_text(
        block("im Haus", text_en="in a house", align="0-0 1-2")
        + block("der Hund", text_en="the dog")
        + block("er bellt", align="0-7")
        + block("er bellt laut", text_en="loud it barks", align="2-0 0-1 1-2")
    )
    valid.write_text(block("Hund", text_en="a dog", align="0-1"))
    test = tmp_path / "test.conllu"
    test.write_text(block("Hund", text_en="dog"))
    given = ["--source", "de", "--target", "en", "--treebank", train, valid, test, *WORDS]
    given += ["--target-comment", "text_en", "--target-tokenize", "spaces"]
    prepare(*given, "--out", tmp_path / "data")
    assert not list((tmp_path / "data").glob("*.align.*"))
    prepare(*given, "--alignments", "--out", tmp_path / "data")  # added afterwards
    assert binary(tmp_path / "data", "train") == ["0-0 1-2", "", "2-0 0-1 1-2"]
    assert binary(tmp_path / "data", "valid") == ["0-1"]
    assert sorted(path.name for path in (tmp_path / "data").glob("*.align.*")) == [
        *("train.align.de-en.bin", "train.align.de-en.idx"),
        *("valid.align.de-en.bin", "valid.align.de-en.idx"),
    ]


def test_training_asks_for_them(long, tmp_path):
    """Without them, fairseq would train on as if nobody had named them."""
    prepare(*options(long, *WORDS, "--out", long / "aligned"))
    bare = [word for word in options(long, *WORDS) if word != "--alignments"]
    prepare(*bare, "--out", long / "bare")
    given = [*LANGUAGES, "--load-alignments", "--max-update", "2"]
    result = in_process.train(long / "bare", tmp_path / "run", *given, check=False)
    assert isinstance(result.error, InputError)
    assert str(result.error) == (
        f"{long}/bare: --load-alignments needs alignments, but the training data have none; make "
        "the data with posattn prepare --align eflomal, or omit --load-alignments"
    )
    assert not list((tmp_path / "run").glob("*.pt"))
    in_process.train(long / "aligned", tmp_path / "run", *given)
    for path in (long / "aligned").glob("valid.align.*"):  # that of validation may be missing
        path.unlink()
    in_process.train(long / "aligned", tmp_path / "other", *given)
