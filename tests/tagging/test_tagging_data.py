"""Tagged text becomes batches: reading, vocabulary, binary data, word vectors."""

import os
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.requests import asked
from fairseq_posattn.tagging.dataset import TaggingData, TaggingDataset, binarize
from fairseq_posattn.tagging.model import SanTaggerConfig
from fairseq_posattn.tagging.sentences import TaggedSentence, read_tagged
from fairseq_posattn.tagging.task import TaggingConfig, TaggingTask
from fairseq_posattn.tagging.vocabulary import (
    PlainDictionary,
    Settings,
    Vocabulary,
    learn,
    load_vectors,
)
from support.commands import ROOT, run
from support.files import write


def conllu(*words: tuple, first: int = 1) -> str:
    """Rows of (form, upos) or (form, upos, xpos)."""
    rows = [(*word, "_")[:3] for word in words]
    return "".join(
        f"{k}\t{form}\t_\t{upos}\t{xpos}\t_\t0\t_\t_\t_\n"
        for k, (form, upos, xpos) in enumerate(rows, start=first)
    )


def read(tmp_path: Path, text: str | bytes, column: str = "upos") -> list[tuple]:
    found = read_tagged(write(tmp_path / "text", text), column)
    return [(s.words, s.tags) for s in found]


def fault(function, *arguments, **options) -> str:
    """Return the error of a function: one line."""
    with pytest.raises(InputError) as raised:
        function(*arguments, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- CoNLL-U -------------------------------------------------------------------------

THE_DOG = conllu(("the", "DET", "DT"), ("dog", "NOUN", "NN"))
DOG = (["the", "dog"], ["DET", "NOUN"])
ROW = "\t_" * 8 + "\n"


@pytest.mark.parametrize(
    "text",
    [
        THE_DOG,
        "\n\n" + THE_DOG + "\n\n\n",
        "# text = the dog\n#\n" + THE_DOG,
        "# newdoc id = 1\n\n# newpar\n\n" + THE_DOG,
        "\ufeff# text = the dog\n" + THE_DOG,
        THE_DOG.replace("\n", "\r\n") + "\r\n",
        "1-2\tthedog" + ROW + THE_DOG,
        conllu(("the", "DET")) + "1.1\tgood" + ROW + conllu(("dog", "NOUN"), first=2),
        "0.1\tsee" + ROW + THE_DOG + "2.1\tnow" + ROW,
        conllu(("the", "DET")) + "# within\n" + conllu(("dog", "NOUN"), first=2),
    ],
)
def test_the_same_sentence(tmp_path, text):
    assert read(tmp_path, text) == [DOG]


@pytest.mark.parametrize(
    "words, expected",
    [
        ([("10 000", "NUM")], (["10 000"], ["NUM"])),
        ([("a\u00a0b", "X"), ("x\u2028y", "X")], (["a\u00a0b", "x\u2028y"], ["X", "X"])),
        ([("#", "SYM"), ("#1", "_")], (["#", "#1"], ["SYM", None])),
        ([("a", "_"), ("b", ""), ("_", "PUNCT")], (["a", "b", "_"], [None, None, "PUNCT"])),
    ],
)
def test_words_and_tags_as_they_are(tmp_path, words, expected):
    assert read(tmp_path, conllu(*words)) == [expected]


def test_tags_of_xpos(tmp_path):
    assert read(tmp_path, THE_DOG, "xpos") == [(["the", "dog"], ["DT", "NN"])]


@pytest.mark.parametrize(
    "text, line, what",
    [
        (THE_DOG + "\n" + conllu(("a", "X"), first=2), 4, "expected the ID 1"),
        (THE_DOG + "3\tnow\t_\n", 3, "columns"),
        (THE_DOG.encode() + b"3\t\xff" + ROW.encode(), 3, "UTF-8"),
        (conllu(("", "X")), 1, "no form"),
        (conllu(("a", "X"), ("a\rb", "X")), 2, "carriage return"),
        ("the\tDET\ndog\tNO\rUN\n", 2, "carriage return"),
    ],
)
def test_faults_of_conllu_name_the_line(tmp_path, text, line, what):
    message = fault(read, tmp_path, text)
    assert f"{tmp_path / 'text'}:{line}:" in message and what in message


# --- two columns ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "the\tDET\ndog\tNOUN\n",
        "the DET\ndog   NOUN",
        "\n\nthe DET\r\ndog NOUN\r\n\r\n",
        "\ufeffthe\tDET\ndog NOUN\n",
    ],
)
def test_two_columns(tmp_path, text):
    assert read(tmp_path, text) == [DOG]
    assert read(tmp_path, text, "xpos") == [DOG]  # there is one column of tags


def test_two_columns_with_odd_words(tmp_path):
    text = "#\t#\n10 000\tCD\n_\t_\n\n# #\n1 CD\n\n# _\n"
    assert read(tmp_path, text) == [
        (["#", "10 000", "_"], ["#", "CD", None]),
        (["#", "1"], ["#", "CD"]),
        (["#"], [None]),
    ]


@pytest.mark.parametrize("line", ["dog", "the big dog", "dog\t", "\tNOUN", "a\tb\tc"])
def test_faults_of_two_columns_name_the_line(tmp_path, line):
    message = fault(read, tmp_path, f"the DET\n\nthe DET\n{line}\n")
    assert f"{tmp_path / 'text'}:4:" in message
    assert "two columns" in message


# --- vocabulary ----------------------------------------------------------------------


def tagged(text: str) -> TaggedSentence:
    """Read a sentence that is written word/TAG word/TAG …"""
    pairs = [token.rsplit("/", 1) for token in text.split(" ")]
    return TaggedSentence(
        [w for w, _ in pairs], [None if t == "_" else t for _, t in pairs], "hand", 1
    )


TRAIN = [tagged("b/X a/Y c/X"), tagged("a/Y c/Z")]
REST = [tagged("d/X b/Y"), tagged("d/X e/X f/X a/X")]
# in all: a 3, then b, c and d 2 each, in this order, then e and f


def words_of(size: str, sentences=TRAIN + REST) -> list[str]:
    return learn(TRAIN, sentences, size, Settings()).words.symbols[2:]


@pytest.mark.parametrize(
    "size, expected",
    [("50%", "abc"), ("49.9%", "ab"), ("0", ""), ("1", "a"), ("100%", "abcdef"), ("999", "abcdef")],
)
def test_the_most_frequent_words_of_all_splits(size, expected):
    assert words_of(size) == list(expected)


@pytest.mark.parametrize("size", ["half", "%", "", "5.5", "nan%", "inf%", "-3", "-50%"])
def test_sizes_that_are_none(size):
    message = fault(words_of, size)
    assert "--words" in message and size in message


def test_characters_and_tags_are_those_of_training():
    vocabulary = learn([tagged("ab/X b/Y _b/_")], [*REST, tagged("zz/NEW")], "9", Settings())
    assert vocabulary.chars.symbols[2:] == ["b", "a", "_"]
    assert vocabulary.tags.symbols[2:] == ["X", "Y"]
    assert vocabulary.tags.numbers(["NEW"]) == [1]


def test_ambiguous_words():
    """c: X and Z in training; b and a: not in training; g is out of the vocabulary."""
    training = [*TRAIN, tagged("g/X"), tagged("g/Y"), tagged("b/_")]
    vocabulary = learn(training, TRAIN + REST, "100%", Settings())
    assert vocabulary.ambiguous == ["c"]
    flags = vocabulary.is_ambiguous()
    assert [vocabulary.words.symbols[k] for k in np.flatnonzero(flags)] == ["c"]
    assert vocabulary.words.numbers(["g"]) == [1]


# --- the step ------------------------------------------------------------------------


def options(folder: Path, *extra) -> TaggingData:
    """Defaults: folder/train, valid and test -> folder/data."""
    files = [*("--train", folder / "train"), *("--valid", folder / "valid")]
    files += [*("--test", folder / "test"), *("--destdir", folder / "data")]
    words = [str(part) for part in (*files, *extra)]
    return asked(TaggingData, None, words)


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "train", THE_DOG + "\n" + conllu(("the", "PRON"), ("cat", "NOUN")))
    write(tmp_path / "valid", conllu(("a", "DET"), ("dog", "_")))
    write(tmp_path / "test", conllu(("the", "X"), ("ox", "NOUN")))
    return tmp_path


def task_of(data: Path, *splits: str, **options) -> TaggingTask:
    task = TaggingTask.setup_task(TaggingConfig(data=str(data), **options))
    for split in splits:
        task.load_dataset(split)
    return task


def rows(dataset: TaggingDataset) -> list[tuple]:
    items = [dataset[k] for k in range(len(dataset))]
    return [tuple(s[kind].tolist() for kind in ("words", "chars", "tags")) for s in items]


def test_numbers_of_a_small_corpus(corpus):
    """The words the (3 times) and dog (twice) are kept of five types; letters go by frequency."""
    binarize(options(corpus))
    vocabulary = Vocabulary.load(corpus / "data")
    assert vocabulary.words.symbols == ["<pad>", "<unk>", "the", "dog"]
    letters = ["t", "h", "e", "d", "o", "g", "c", "a"]
    assert vocabulary.chars.symbols == ["<pad>", "<unk>", *letters]
    assert vocabulary.tags.symbols == ["<pad>", "<unk>", "NOUN", "DET", "PRON"]
    assert vocabulary.ambiguous == ["the"]
    task = task_of(corpus / "data", "train", "valid", "test")
    assert rows(task.dataset("valid")) == [([1, 3], [9, 0, 5, 6, 7, 0], [3, 0])]
    assert rows(task.dataset("test")) == [([2, 1], [2, 3, 4, 0, 6, 1, 0], [1, 2])]
    assert rows(task.dataset("train"))[1] == ([2, 1], [2, 3, 4, 0, 8, 9, 2, 0], [4, 2])


def test_cut_at_60_words_and_20_characters(corpus):
    long = [(f"{k}" + "x" * 30, "NUM") for k in range(125)]
    write(corpus / "train", conllu(*long) + "\n" + THE_DOG)
    binarize(options(corpus, "--words", "100%"))
    task = task_of(corpus / "data", "train")
    assert task.dataset("train").sizes.tolist() == [60, 60, 5, 2]
    vocabulary, data = task.vocabulary, task.dataset("train")
    words = [vocabulary.words[n] for k in range(3) for n in data[k]["words"]]
    assert words == [form for form, _ in long]
    numbers = [number for k in range(3) for number in data[k]["chars"].tolist()]
    spelt = "".join(" " if n == 0 else vocabulary.chars[n] for n in numbers).split()
    assert spelt == [form[:20] for form, _ in long]


def test_other_cuts(corpus):
    write(corpus / "train", conllu(*[("abc", "X")] * 7))
    binarize(options(corpus, "--max-words", "3", "--max-chars", "2"))
    data = task_of(corpus / "data", "train").dataset("train")
    assert data.sizes.tolist() == [3, 3, 1]
    assert [len(data[k]["chars"]) for k in range(3)] == [9, 9, 3]
    assert Vocabulary.load(corpus / "data").settings == Settings("upos", 3, 2)


def test_several_test_sets_and_none(corpus):
    binarize(options(corpus, "--test", corpus / "valid", corpus / "test"))
    task = task_of(corpus / "data", "test", "test1")
    assert len(task.dataset("test")) == len(task.dataset("test1")) == 1
    binarize(options(corpus, "--overwrite", "--test"))
    assert "no split 'test'" in fault(task_of, corpus / "data", "test")


def test_words_from_train(corpus):
    binarize(options(corpus, "--words-from-train", "--words", "100%"))
    assert Vocabulary.load(corpus / "data").words.symbols[2:] == ["the", "dog", "cat"]


ODD = ["<pad>", "<unk>", "<s>", "</s>", "a b", " ", "7", "#", "é", "e\u0301", "\u2028", "\x85"]
ODD += ["#fairseq:overwrite", "a #fairseq:overwrite", "\ufeffx", "\u00a0", "\x0c", "\U0001f600"]
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r")
WORDS = st.one_of(st.sampled_from(ODD), st.text(CHARACTERS, min_size=1, max_size=25))
ROWS = st.tuples(WORDS, st.sampled_from(["A", "B", "C", "<pad>", "<unk>", "_"]))
SENTENCES = st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=1, max_size=4)


def round_trip(folder: Path, parts: dict[str, list]) -> None:
    for name, sentences in parts.items():
        write(folder / name, "\n".join(conllu(*words) for words in sentences))
    made = binarize(options(folder, "--words", "70%", "--overwrite"))
    task = task_of(folder / "data", *parts)
    loaded = task.vocabulary
    for kind in ("words", "chars", "tags"):
        assert getattr(loaded, kind).symbols == getattr(made, kind).symbols
        assert getattr(loaded, kind).count == getattr(made, kind).count
    assert loaded.ambiguous == made.ambiguous
    assert loaded.is_ambiguous().tolist() == made.is_ambiguous().tolist()
    for name, sentences in parts.items():
        assert rows(task.dataset(name)) == [slow_numbers(made, words) for words in sentences]


def slow_numbers(vocabulary: Vocabulary, sentence: list) -> tuple:
    def number(dictionary, symbol):
        known = dictionary.symbols[2:]
        return known.index(symbol) + 2 if symbol in known else 1

    words = [number(vocabulary.words, word) for word, _ in sentence]
    tags = [0 if tag == "_" else number(vocabulary.tags, tag) for _, tag in sentence]
    chars = []
    for word, _ in sentence:
        chars += [number(vocabulary.chars, char) for char in word[:20]] + [0]
    return words, chars, tags


TAGGED = [[("x", "A")]]


@given(train=SENTENCES, valid=SENTENCES)
@settings(max_examples=25)
def test_data_come_back_as_they_were(tmp_path_factory, train, valid):
    parts = {"train": train + TAGGED, "valid": valid + TAGGED, "test": TAGGED}
    round_trip(tmp_path_factory.mktemp("odd"), parts)


# --- errors of the step --------------------------------------------------------------


@pytest.mark.parametrize(
    "name, text, line, what",
    [
        ("train", THE_DOG + "3\tx\n", 3, "columns"),
        ("valid", THE_DOG + "4" + "\t_" * 9, 3, "number the words"),
        ("test", THE_DOG.encode() + b"\xff", 3, "iconv"),
        ("train", "", None, "no sentences"),
        ("valid", "# only\n", None, "no sentences"),
        ("test", conllu(("a", "_")), None, "--column"),
    ],
)
def test_errors_name_file_and_remedy_and_leave_nothing(corpus, name, text, line, what):
    write(corpus / name, text)
    before = sorted(os.listdir(corpus))
    message = fault(binarize, options(corpus))
    where = f"{corpus / name}:{line}:" if line else f"{corpus / name}:"
    assert message.startswith(where) and what in message
    assert sorted(os.listdir(corpus)) == before


def test_xpos_where_there_is_none(corpus):
    write(corpus / "train", conllu(("a", "X")))
    assert "xpos" in fault(binarize, options(corpus, "--column", "xpos"))


def test_overwrite_never_deletes_a_foreign_folder(corpus):
    (corpus / "data").mkdir()
    write(corpus / "data/thesis.tex", "years of work")
    message = fault(binarize, options(corpus, "--overwrite"))
    assert str(corpus / "data") in message and "delete the folder yourself" in message
    assert (corpus / "data/thesis.tex").read_text() == "years of work"
    (corpus / "data/thesis.tex").unlink()
    binarize(options(corpus))  # an empty folder may be filled


@pytest.mark.long
def test_the_program(corpus):
    program = [sys.executable, ROOT / "preprocess/binarize_tagging.py"]
    files = [*("--train", corpus / "train"), *("--valid", corpus / "valid")]
    done = run(*program, *files, "--destdir", corpus / "data")
    assert done.stdout == (
        f"{corpus / 'data'}: the dictionaries have 4 words (1 are ambiguous), 10 characters and "
        "5 tags, each including padding and unknown\n"
    )


# --- the task ------------------------------------------------------------------------


def test_a_folder_of_something_else(tmp_path):
    message = fault(task_of, tmp_path)
    assert str(tmp_path) in message and "posattn binarize-tagging" in message


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("[]", "damaged"),
        ('{"column": "xpos", "new": 1}', '"new" is not a known key'),
        ('{"column": "deprel"}', "expected upos or xpos"),
        ('{"max_words": 0}', "expected at least 1"),
    ],
)
def test_settings_that_cannot_be(corpus, about, message):
    binarize(options(corpus))
    write(corpus / "data/tagging.json", about)
    found = fault(task_of, corpus / "data")
    assert found.startswith(f"{corpus}/data/tagging.json: ") and message in found


@pytest.mark.parametrize("kind", ["word", "char", "tag"])
def test_files_of_other_sets_are_refused(corpus, kind):
    """Each of the three files alone is of another set."""
    binarize(options(corpus, "--words", "100%"))
    for ending in ("bin", "idx"):
        (corpus / f"data/train.{kind}.{ending}").write_bytes(
            (corpus / f"data/valid.{kind}.{ending}").read_bytes()
        )
    assert ".bin: " in fault(task_of, corpus / "data", "train")


def model_of(task: TaggingTask, **options):
    return task.build_model(Namespace(**{**vars(config(**options)), "_name": "san_tagger"}))


def config(**options) -> SanTaggerConfig:
    small = dict(encoder_layers=1, encoder_embed_dim=4, char_filters=4, char_embed_dim=3)
    return SanTaggerConfig(**small | dict(encoder_attention_heads=2) | options)


def test_models_that_cannot_be(corpus):
    binarize(options(corpus))
    task = task_of(corpus / "data")
    assert "--max-source-positions 60" in fault(model_of, task, max_source_positions=59)
    for options_, what in (
        (dict(encoder_attention_heads=3), "--encoder-attention-heads"),
        (dict(encoder_attention="tree_relative"), "trees"),
        (dict(encoder_attention="convoluted"), "convoluted"),
        (dict(encoder_attention="convolved_2d@7"), "7"),
    ):
        with pytest.raises(SpecificationError, match=what):
            model_of(task, **options_)


# --- batches -------------------------------------------------------------------------


SPELLING = st.lists(st.integers(1, 4), min_size=1, max_size=5)
NUMBERED = st.lists(st.tuples(st.integers(1, 9), SPELLING, st.integers(0, 5)), min_size=1)


@given(sentences=st.lists(NUMBERED, min_size=1, max_size=5), with_tags=st.booleans())
@settings(max_examples=40)
def test_batches_against_a_slow_reading(sentences, with_tags):
    words = [torch.tensor([word for word, _, _ in s]) for s in sentences]
    chars = [torch.tensor([c for _, spelt, _ in s for c in (*spelt, 0)]) for s in sentences]
    tags = [torch.tensor([tag for _, _, tag in s]) for s in sentences] if with_tags else None
    data = TaggingDataset(words, chars, tags)
    order = list(reversed(range(len(sentences))))
    found = data.collater([data[k] for k in order])
    longest = max(len(s) for s in sentences)
    spellings, rows = found["net_input"]["spellings"].tolist(), found["net_input"]["spelling_of"]
    assert found["id"].tolist() == order
    assert found["nsentences"] == len(sentences)
    assert found["ntokens"] == sum(map(len, sentences))
    assert found["net_input"]["words"].shape == (len(sentences), longest)
    widest = max(len(spelt) for s in sentences for _, spelt, _ in s)
    assert all(len(spelling) == widest for spelling in spellings)
    assert len(spellings) == len({tuple(spelt) for s in sentences for _, spelt, _ in s})
    for b, k in enumerate(order):
        for t in range(longest):
            word, spelt, tag = sentences[k][t] if t < len(sentences[k]) else (0, None, 0)
            assert found["net_input"]["words"][b, t] == word
            if spelt is not None:
                assert spellings[rows[b, t]] == spelt + [0] * (widest - len(spelt))
            if with_tags:
                assert found["target"][b, t] == tag
    assert ("target" in found) == with_tags


# --- word vectors --------------------------------------------------------------------

KNOWN = PlainDictionary.of([("the", 2), ("New York", 1), ("dog", 1), ("cat", 1)])


def load(tmp_path: Path, text: str, width: int = 2) -> list[list[float]]:
    embedding = torch.full((len(KNOWN), width), 9.0)
    load_vectors(str(write(tmp_path / "v.vec", text)), KNOWN, embedding)
    assert embedding[:2].eq(9).all()  # padding and unknown
    return embedding[2:].tolist()


VECTORS = "the 1 2\nunheard 0 0\nNew York -.5 1e-1\n<pad> 3 3\n<unk> 3 3\ndog 5 6\n"
LOADED = torch.tensor([[1, 2], [-0.5, 0.1], [5, 6], [9, 9]]).tolist()


@pytest.mark.parametrize(
    "text",
    [
        VECTORS,
        "\ufeff" + VECTORS,
        VECTORS.replace("\n", " \n"),  # as word2vec writes them
        VECTORS.replace("\n", "\r\n"),
        VECTORS + "dog 7 7\n",  # the first one holds
    ],
)
def test_vectors(tmp_path, text):
    assert load(tmp_path, text) == LOADED


@pytest.mark.parametrize(
    "text, where, what",
    [
        ("6 3\nthe 1 2 3\n", ":1:", "--encoder-embed-dim 3"),
        ("the 1\ndog 2\n", ":1:", "--encoder-embed-dim 1"),
        ("the 1 2\ndog 2\n", ":2:", "--encoder-embed-dim 1"),
        ("dog 1 2\nthe 1 x\n", ":2:", "numbers"),
        ("dog 1 2\nthe 1 nan\n", ":2:", "finite numbers"),
        ("dog 1 2\nthe 1 1e39\n", ":2:", "finite numbers"),
        (f"6 {'9' * 4301}\nthe 1 2\n", ":1:", "numbers"),
        ("unheard 1 2\n", ":", "none of the dictionary's 4 words"),
        ("", ":", "none of the dictionary's 4 words"),
        ("A text of several words\nand lines\n", ":", "numbers"),
    ],
)
def test_files_that_are_no_vectors_of_this_width(tmp_path, text, where, what):
    message = fault(load, tmp_path, text)
    assert message.startswith(f"{tmp_path / 'v.vec'}{where}") and what in message


@pytest.mark.parametrize("fixed", [False, True])
def test_fixed_or_trained(corpus, fixed):
    binarize(options(corpus, "--words", "100%"))
    write(corpus / "v.vec", "the 1 2 3 4\ndog 5 6 7 8\n")
    task = task_of(corpus / "data", word_vectors=str(corpus / "v.vec"), fixed_word_vectors=fixed)
    words = model_of(task).tagger.words.weight
    assert words.requires_grad != fixed
    assert words[2:4].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert words[4:].abs().max() <= 0.05
    names = {n for n, p in model_of(task).named_parameters() if not p.requires_grad}
    assert names == ({"tagger.words.weight"} if fixed else set())
