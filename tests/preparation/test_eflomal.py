"""posattn prepare --align eflomal: both directions are symmetrised and become those of pieces."""

import os
import random
import shutil
import sys

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.preparation import eflomal
from fairseq_posattn.preparation.eflomal import grow_diag_final_and, links_of
from fairseq_posattn.preparation.job import Job
from preparation.test_prepared_alignments import binary, clean, write_texts
from support.files import lines_of, write
from support.raw_corpus import contents, prepare
from support.reference_symmetrization import symmetrized

WORDS = {"hund": "dog", "katze": "cat", "haus": "house", "rot": "red", "ein": "a", "und": "and"}
LINES = 120
SPACES = ("--parser", "none", "--tokenize", "spaces", "--target-tokenize", "spaces")
BARE = ("--parser", "none", "--tokenize", "moses")


@pytest.mark.parametrize(
    ("forward", "reverse", "expected"),
    [
        ("0-0 1-1", "0-0 1-1", "0-0 1-1"),
        ("", "", ""),
        ("0-0 0-1", "0-0", "0-0 0-1"),  # a neighbour with an unaligned target
        ("0-0 1-1", "0-0", "0-0 1-1"),  # a diagonal one
        ("0-0 0-1 1-0", "0-0", "0-0 0-1 1-0"),  # two, each with one unaligned word
        ("0-0 0-1 1-0 1-1", "0-0 1-1", "0-0 1-1"),  # between words that are aligned
        ("0-0 2-2", "0-0", "0-0 2-2"),  # no neighbour, but both words are unaligned
        ("0-0 0-2", "0-0", "0-0"),  # no neighbour, one word is aligned
        ("0-0 0-1 0-2 0-3", "0-0", "0-0 0-1 0-2 0-3"),  # a neighbour of a neighbour
        ("0-1", "1-0", "0-1 1-0"),  # nothing in both: first those of forward
        ("0-1", "0-0", "0-1"),
    ],
)
def test_symmetrized_by_hand(forward, reverse, expected):
    found = grow_diag_final_and(links_of(forward), links_of(reverse))
    assert found == sorted(links_of(expected))


def test_symmetrized_as_by_the_reference():
    rng = random.Random("symmetry")
    for _ in range(600):
        sizes = rng.randint(1, 7), rng.randint(1, 7)
        both = [
            {tuple(map(rng.randrange, sizes)) for _ in range(rng.randint(0, 10))} for _ in range(2)
        ]
        assert grow_diag_final_and(*both) == symmetrized(*both, *sizes)


@pytest.fixture
def raw(tmp_path):
    """Texts in which the translation of each word is known, and its order is the reverse."""
    rng, rows = random.Random("words"), []
    for _ in range(LINES):
        words = [rng.choice([*WORDS]) for _ in range(rng.randint(1, 4))]
        rows.append((" ".join(words), " ".join(WORDS[word] for word in reversed(words)), ""))
    write_texts(tmp_path, train=rows, valid=rows[:4])
    for path in tmp_path.glob("*.align"):
        path.unlink()
    return tmp_path


def options(raw, *more) -> list:
    texts = ["--source", "de", "--target", "en", "--train", raw / "train", "--valid", raw / "valid"]
    return [*texts, "--align", "eflomal", *more]


@pytest.fixture
def installed():
    if not shutil.which(eflomal.PROGRAM, path=os.path.dirname(sys.executable)):
        pytest.skip("eflomal is not installed; pip install eflomal")


def links_by_hand(source: str, target: str) -> set[str]:
    """Pairs of a word and its translation; a word that occurs twice has both."""
    sides = source.split(), target.split()
    return {
        f"{s}-{t}"
        for s, ours in enumerate(sides[0])
        for t, theirs in enumerate(sides[1])
        if WORDS[ours] == theirs
    }


def agreement(raw, found: list[str]) -> float:
    """The share of links that join a word with its translation."""
    texts = zip(lines_of(raw / "train.de"), lines_of(raw / "train.en"), found, strict=True)
    right = [pair in links_by_hand(*text) for *text, line in texts for pair in line.split()]
    assert len(right) > LINES
    return sum(right) / len(right)


def test_words_are_aligned_with_their_translations(raw, installed, monkeypatch):
    """The same alignments serve other trees; with many shards the data are the same."""
    given = options(raw, *SPACES, "--segmenter", "words", "--max-ratio", 9, "--work", raw / "work")
    prepare(*given, "--out", raw / "data")
    found = binary(raw / "data", "train")
    assert agreement(raw, found) > 0.8
    assert found == lines_of(raw / "work/train.eflomal.align")
    assert not list((raw / "data").glob("valid.align.*"))
    monkeypatch.setattr(eflomal, "align_texts", None)  # not called again
    prepare(*given, "--out", raw / "chain", "--control", "chain")
    assert binary(raw / "chain", "train") == found
    monkeypatch.setattr(Job, "step_lines", 7)
    (raw / "work/train.pieces.align").unlink()
    prepare(*given, "--out", raw / "shards")
    assert contents(raw / "shards") == contents(raw / "data")


def test_a_killed_run_resumes_after_the_alignment(raw, installed, monkeypatch):
    given = options(raw, *SPACES, "--segmenter", "words", "--out", raw / "data")
    with monkeypatch.context() as patch:
        patch.setattr(eflomal, "grow_diag_final_and", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(*given)
    aligned = (raw / "data.work/train.eflomal.forward").read_bytes()
    monkeypatch.setattr(eflomal, "program", killed)
    monkeypatch.setattr("fairseq_posattn.preparation.prepare.eflomal.program", lambda: "")
    prepare(*given)
    assert (raw / "data.work/train.eflomal.forward").read_bytes() == aligned


def killed(*given) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("segmenter", ["subword-nmt", "sentencepiece"])
def test_pieces(raw, installed, segmenter):
    """Each piece has the alignments of its word, whether or not the text is tokenised before."""
    symbols = {"subword-nmt": 4, "sentencepiece": 24}[segmenter]
    given = ("--segmenter", segmenter, "--symbols", symbols, "--max-ratio", 9)
    prepare(*options(raw, *BARE, *given, "--out", raw / "data"))
    sides = [clean(raw / "data", language) for language in ("de", "en")]
    words = lines_of(raw / "data.work/train.eflomal.align")
    for pieces, of_words, pairs in zip(
        zip(*sides, strict=True), words, binary(raw / "data", "train"), strict=True
    ):
        joined = [words_of_pieces(side, segmenter) for side in pieces]
        found = {
            "-".join(str(of[int(k)]) for of, k in zip(joined, pair.split("-"), strict=True))
            for pair in pairs.split()
        }
        assert found == set(of_words.split())


def words_of_pieces(pieces: str, segmenter: str) -> list[int]:
    """The number of each piece's word."""
    found, word = [], 0
    for k, piece in enumerate(pieces.split()):
        if segmenter == "sentencepiece":
            word += k > 0 and piece.startswith("\u2581")
            found.append(word)
        else:
            found.append(word)
            word += not piece.endswith("@@")
    return found


def test_text_without_spaces_is_cut_at_its_pieces(tmp_path, installed):
    rng, words = random.Random("zh"), {"狗": "dog", "猫": "cat", "房子": "house", "红": "red"}
    rows = []
    for _ in range(LINES):
        chosen = [rng.choice([*words]) for _ in range(rng.randint(1, 4))]
        rows.append(("".join(chosen), " ".join(words[word] for word in chosen), ""))
    for side, suffix in enumerate(("zh", "en")):
        write(tmp_path / f"train.{suffix}", [row[side] for row in rows])
    given = ["--source", "zh", "--target", "en", "--train", tmp_path / "train", *BARE]
    given += ["--align", "eflomal", "--symbols", 24, "--max-ratio", 9, "--separate"]
    prepare(*given[:-1], "--out", tmp_path / "data")
    cut = lines_of(tmp_path / "data.work/train.aligned_words.zh")
    assert [line.replace(" ", "") for line in cut] == [row[0] for row in rows]
    assert any(" " in line for line in cut)


def test_without_eflomal(raw, monkeypatch):
    monkeypatch.setattr(eflomal, "PROGRAM", "no-such-aligner")
    with pytest.raises(InputError, match=r"requires the program eflomal; install it with pip"):
        prepare(*options(raw, *SPACES, "--out", raw / "data"))
    assert not list(raw.glob("data*"))


def test_what_eflomal_says_when_it_fails(raw, monkeypatch):
    program = write(raw / "eflomal-align", "#!/bin/sh\necho out of memory >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(eflomal, "program", lambda: str(program))
    with pytest.raises(InputError, match=r"eflomal cannot align .*train.text.de .*out of memory"):
        prepare(*options(raw, *SPACES, "--segmenter", "words", "--out", raw / "data"))
    assert not list((raw / "data.work").glob("train.eflomal.*"))


def test_alignments_are_either_read_or_computed(raw):
    with pytest.raises(InputError, match="but --align computes them; omit one option"):
        prepare(*options(raw, *SPACES, "--alignments", "--out", raw / "data"))
