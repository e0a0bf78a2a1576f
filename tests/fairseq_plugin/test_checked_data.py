"""Damaged binary data and dictionaries are refused by name when fairseq opens them."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches.checked_data import HEADER
from fairseq_posattn.fairseq_plugin.tree_data import SourcePieces
from support.in_process import generate, train

SENTENCES = [[4, 5, 2], [2], [], [9, 4, 2], [8, 2]]
STARTS = HEADER.size + 4 * len(SENTENCES)


def write_data(prefix: Path, sentences=SENTENCES, dtype=np.uint16) -> Path:
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence, dtype=torch.long))
    builder.finalize(f"{prefix}.idx")
    return prefix


def symbols(count: int) -> Dictionary:
    dictionary = Dictionary()
    for k in range(count - dictionary.nspecial):
        dictionary.add_symbol(f"s{k}")
    return dictionary


def read(prefix: Path, dictionary=None) -> list[list[int]]:
    dataset = data_utils.load_indexed_dataset(str(prefix), dictionary)
    return [sentence.tolist() for sentence in dataset]


def change(path: str, place: int, kind: str, value) -> None:
    data = bytearray(Path(path).read_bytes())
    struct.pack_into(kind, data, place, value)
    Path(path).write_bytes(data)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("sentences", [SENTENCES, [[2]]])
def test_what_fairseq_writes_is_read(tmp_path, dtype, sentences):
    prefix = write_data(tmp_path / "train", sentences, dtype)
    assert read(prefix, symbols(10)) == sentences


def test_data_without_a_sentence_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"train\.idx: the data contain no sentences"):
        read(write_data(tmp_path / "train", []))


@pytest.mark.parametrize(
    ("place", "kind", "value", "message"),
    [
        (0, "<B", 0, "not the index of a binarised data set"),
        (17, "<B", 99, "not the index of a binarised data set"),
        (18, "<Q", 4, "bytes instead of 74, so it is incomplete or damaged"),
        (HEADER.size, "<i", -1, "lengths and offsets of the sentences disagree"),
        (HEADER.size + 16, "<i", 3, r"18 bytes instead of 20, so it is incomplete or damaged"),
        (STARTS + 8, "<q", -8, "lengths and offsets of the sentences disagree"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, place, kind, value, message):
    prefix = write_data(tmp_path / "train")
    change(f"{prefix}.idx", place, kind, value)
    with pytest.raises(InputError, match=rf"train\.(idx|bin): .*{message}"):
        read(prefix)
    with pytest.raises(InputError, match=message):
        SourcePieces(str(prefix))


@pytest.mark.parametrize("name", ["idx", "bin"])
@pytest.mark.parametrize("keep", [0, 5, -1])
def test_a_torn_file_is_refused(tmp_path, name, keep):
    prefix = write_data(tmp_path / "train")
    path = Path(f"{prefix}.{name}")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=rf"train\.{name}: "):
        read(prefix)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_offsets_and_numbers_are_checked_block_by_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr("fairseq_posattn.fairseq_plugin.patches.checked_data.BLOCK", block)
    prefix = write_data(tmp_path / "train")
    assert read(prefix, symbols(10)) == SENTENCES
    for k in range(len(SENTENCES)):
        write_data(prefix)
        change(f"{prefix}.idx", STARTS + 8 * k, "<q", 7)
        with pytest.raises(InputError, match="offsets of the sentences disagree"):
            read(prefix)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_numbers_without_a_symbol_are_refused(tmp_path, dtype):
    prefix = write_data(tmp_path / "train", SENTENCES, dtype)
    with pytest.raises(
        InputError, match=r"train\.bin: the data contain the index 9, .* has 9 symbols"
    ):
        read(prefix, symbols(9))
    if dtype in (np.int32, np.int64):
        write_data(prefix, [*SENTENCES, [-1]], dtype)
        with pytest.raises(InputError, match=r"the data contain the index -1"):
            read(prefix, symbols(10))


@pytest.mark.parametrize("language", ["src", "tgt"])
def test_a_training_names_the_damaged_file_and_the_dictionary(toy_data, tmp_path, language):
    data = tmp_path / "data"
    shutil.copytree(toy_data, data)
    lines = (data / f"dict.{language}.txt").read_text().splitlines(keepends=True)
    (data / f"dict.{language}.txt").write_text("".join(lines[:20]))
    result = train(data, tmp_path / "run", check=False)
    found = (
        rf"\.{language}\.bin: the data contain the index \d+, but {data}/dict.{language}.txt has "
        r"24 symbols"
    )
    assert isinstance(result.error, InputError)
    with pytest.raises(InputError, match=found):
        raise result.error


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a 3\nb\n", 2, "expected a symbol, a space and a number, found 'b'"),
        ("a 3\nb \u0661\n", 2, "expected a symbol, a space and a number"),
        ("a 3\nb 2\na 1\n", 3, "'a' is listed twice or is a special symbol"),
        (b"a 3\nb\xff 2\n", 2, "the line is not UTF-8"),
    ],
)
def test_a_damaged_dictionary_is_refused_by_file_and_line(tmp_path, text, line, message):
    path = tmp_path / "dict.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as raised:
        Dictionary.load(str(path))
    assert str(raised.value).startswith(f"{path}:{line}: {message}")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_a_dictionary_may_hold(tmp_path, mark, end):
    path = tmp_path / "dict.txt"
    lines = ["a 3", "b c 2", "\u3000 1", "\ufeff 1", "<pad> 5 #fairseq:overwrite", "\u2028x 0"]
    path.write_bytes((mark + "".join(line + end for line in lines)).encode())
    dictionary = Dictionary.load(str(path))
    assert dictionary.symbols[4:] == ["a", "b c", "\u3000", "\ufeff", "<pad>", "\u2028x"]


@pytest.mark.parametrize("language", ["src", "tgt"])
def test_a_flipped_bit_is_refused(language, toy_data, tree_model, tmp_path):
    """Both numbers stand for symbols, so only the checksum tells."""
    data = shutil.copytree(toy_data, tmp_path / "data")
    path = data / f"test.src-tgt.{language}.bin"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    error = generate(data, tree_model, check=False).error
    assert isinstance(error, InputError)
    assert str(error).startswith(f"{path}: the checksum differs from the one in checksums.json")


def test_data_without_checksums_are_read(toy_data, stock_model, tmp_path):
    """Earlier versions and fairseq-preprocess make none."""
    data = shutil.copytree(toy_data, tmp_path / "data")
    (data / "checksums.json").unlink()
    assert "H-0" in generate(data, stock_model).output
