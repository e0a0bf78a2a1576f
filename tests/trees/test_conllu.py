"""CoNLL-U is read, and bad input refused."""

import gzip
import lzma
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees import TreeError, escape_whitespace, read_conllu
from fairseq_posattn.trees.conllu import comment_of, raw_text, read_blocks, text_of
from support.random_trees import forms, parents


def row(number, form, head):
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


def sentence(*heads):
    return "".join(row(k, f"w{k}", head) for k, head in enumerate(heads, start=1)) + "\n"


@pytest.fixture
def conllu_file(tmp_path):
    def write(text, name="t.conllu"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


FULL = (
    "# sent_id = 1\n"
    "# text = vámonos al mar\n"
    + row("1-2", "vámonos", "_")
    + row(1, "vamos", 0)
    + row(2, "nos", 1)
    + row("3-4", "al", "_")
    + row(3, "a", 5)
    + row(4, "el", 5)
    + row("4.1", "unseen", "_")
    + row(5, "mar", 1)
    + "\n"
    "# an empty sentence\n"
    "\n"
    "\n" + row(1, "no", "_") + row(2, "tree", "_")
)


def test_words_and_parents(conllu_file):
    first, empty, last = read_conllu(conllu_file(FULL))
    assert first.words == ["vamos", "nos", "a", "el", "mar"]
    assert first.parents == [0, 1, 5, 5, 1]
    assert (empty.words, empty.parents) == ([], [])
    assert (last.words, last.parents) == (["no", "tree"], None)
    assert [first.line, empty.line, last.line] == [1, 12, 15]
    assert first.path.endswith("t.conllu")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed(conllu_file, pack):
    suffix = {gzip.compress: "gz", lzma.compress: "xz"}[pack]
    packed = conllu_file(pack(FULL.encode()), f"t.conllu.{suffix}")
    assert [s.words for s in read_conllu(packed)] == [
        s.words for s in read_conllu(conllu_file(FULL))
    ]


def test_windows_line_ends_and_byte_order_mark(conllu_file):
    text = "\ufeff" + FULL.replace("\n", "\r\n")
    assert [s.parents for s in read_conllu(conllu_file(text))] == [[0, 1, 5, 5, 1], [], None]


@pytest.mark.parametrize("inside", [" ", "\u00a0", "\u2028", "\u0085", "\u3000", "\x0c", "\x1e"])
def test_whitespace_inside_a_word(conllu_file, inside):
    (found,) = read_conllu(conllu_file(row(1, f"10{inside}000", 0)))
    assert found.words == ["10\u2423000"]
    assert found.words[0].split() == found.words


BAD = [
    ("1\tw\t_\n", 1, "CoNLL-U has 10 columns separated by tabs, but this line has 3"),
    (sentence(0) + "  \n", 3, "CoNLL-U has 10 columns separated by tabs, but this line has 1"),
    (sentence(0) + row(1, "w", 0) + row(3, "w", 1), 4, "expected the ID 2, found '3'"),
    (row(1, "", 0), 1, "word 1 has no form"),
    ("# c\n" + sentence(0, "x"), 3, "the parent (column 7, HEAD) is 'x'; write"),
    *(
        (sentence(0, head), 2, f"the parent (column 7, HEAD) is '{head}'; write")
        for head in (*("01", "+1", "1_0", " 1", "1 ", "-0", "\u0661", "\uff11"), "1" * 4301)
    ),
    *(
        (row(number, "w", 0), 1, f"expected the ID 1, found '{number}'")
        for number in ("01", "\u0661", "1_0", "\u0661-\u0662", "01-2", "1-+2", "\u0661.1", "1.0")
    ),
    (row("1-" + "9" * 4301, "w", 0), 1, "expected the ID 1, found '1-999"),
    (sentence(0, 3), 2, "the parent of word 2 is 3, but the sentence has the words 1 to 2"),
    (sentence(0, "_"), 2, "the parent (column 7, HEAD) is missing, but line 1 of"),
    (sentence("_", 0), 1, "the parent (column 7, HEAD) is missing, but line 2 of"),
    (sentence(2, 1), 1, "the sentence has no root"),
    (sentence(0, 1) + sentence(0, 1, 0), 6, "the sentence has 2 roots (words 1, 3); correct"),
    (sentence(0, 3, 4, 2), 2, "the parents form a cycle: 2 -> 3 -> 4 -> 2"),
    (b"# ok\n1\t\xff\n", 2, "the line is not UTF-8"),
]


@pytest.mark.parametrize(("text", "line", "message"), BAD)
def test_bad_input(conllu_file, text, line, message):
    path = conllu_file(text)
    with pytest.raises(InputError, match=re.escape(f"{path}:{line}: {message}")):
        list(read_conllu(path))


def test_keeping_the_first_root_mends_no_cycle(conllu_file):
    with pytest.raises(
        TreeError, match=r":2: the parents form a cycle: 2 -> 2; correct one of them"
    ):
        list(read_conllu(conllu_file(sentence(0, 2, 0)), several_roots="first"))


@pytest.mark.parametrize(
    ("name", "pack"), [("t.conllu.gz", gzip.compress), ("t.conllu.xz", lzma.compress)]
)
def test_packed_file_cut_off(conllu_file, name, pack):
    path = conllu_file(pack(f"{FULL}\n".encode() * 50)[:-20], name)
    with pytest.raises(InputError, match=rf"{name}:\d+: the file cannot be decompressed"):
        list(read_conllu(path))


CELLS = forms().map(lambda form: re.sub(r"[\t\r\n]", "x", form))


@given(st.lists(parents(most=8), min_size=1, max_size=4), st.data())
def test_what_is_written_is_read(trees, data):
    sentences = [[data.draw(CELLS) for _ in tree] for tree in trees]
    text = ""
    for words, tree in zip(sentences, trees, strict=True):
        rows = zip(words, tree, strict=True)
        text += "# c\n" + "".join(row(k, *pair) for k, pair in enumerate(rows, start=1)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.conllu"
        path.write_bytes(text.encode())
        found = list(read_conllu(path))
    assert [s.parents for s in found] == trees
    assert [s.words for s in found] == [
        [escape_whitespace(w) for w in words] for words in sentences
    ]


IM_HAUS = [
    "1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tin\t_\t_\t_\t_\t3\t_\t_\t_",
    "2\tdem\t_\t_\t_\t_\t3\t_\t_\t_",
    "3\tHaus\t_\t_\t_\t_\t0\t_\t_\t_",
]


def read_one(tmp_path, lines):
    path = tmp_path / "multiword.conllu"
    path.write_text("\n".join(lines) + "\n\n")
    return next(iter(read_conllu(path)))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (IM_HAUS[1:2] + IM_HAUS[:1] + IM_HAUS[2:], "must start at the next word, 2,"),
        (IM_HAUS[:1] + IM_HAUS, "and not overlap another range"),
        ([IM_HAUS[0].replace("im", "")] + IM_HAUS[1:], "the multiword token 1-2 has no form"),
        ([IM_HAUS[0].replace("1-2", "1-4")] + IM_HAUS[1:], "ends within the token 'im'"),
    ],
)
def test_multiword_tokens_in_disorder(tmp_path, lines, message):
    with pytest.raises(TreeError, match=message):
        read_one(tmp_path, lines)


@pytest.mark.parametrize("begin", ["# text = ", "#text =", "#text=", "#  text  = "])
def test_a_comment_with_other_spaces(tmp_path, begin):
    """Further spaces after the first one are part of the text."""
    path = tmp_path / "one.conllu"
    path.write_text(f"# text_en = no\n{begin}im Haus\n1\tim\t_\t_\t_\t_\t0\t_\t_\t_\n")
    [block] = read_blocks(str(path))
    assert text_of(block) == raw_text(block) == comment_of(block, "text") == "im Haus"
