"""Tree files: what is written is read, lazily; torn or foreign files are refused by name."""

import pickle

import numpy as np
import pytest

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store import TreeFile, TreeWriter
from fairseq_posattn.trees.store_format import (
    BLOCK,
    bin_path,
    block_starts,
    exists,
    fingerprint,
    idx_path,
)

TREES = [([2, 0, 2], [1, 3, 2]), ([], []), ([0], [1]), ([0, 1], [300, 1])]


def write_trees(folder, trees=TREES, name="train.en-de.en"):
    """A tree file with its source: pieces are numbered through; the end is 2."""
    prefix = str(folder / name)
    source = [np.append(np.arange(sum(p)) + 7 * k, 2) for k, (_, p) in enumerate(trees)]
    source_file = folder / f"{name}.bin"
    source_file.write_bytes(b"".join(s.astype("<u2").tobytes() for s in source))
    with TreeWriter(prefix) as writer:
        for (parents, pieces), tokens in zip(trees, source, strict=True):
            writer.add(parents, pieces, tokens)
        writer.finish([source_file])
    return prefix, source, source_file


def test_what_is_written_is_read_in_any_order(tmp_path):
    prefix, source, source_file = write_trees(tmp_path)
    trees = TreeFile(prefix)
    assert len(trees) == 4 and exists(prefix)
    records, lengths = trees.read(np.array([3, 1, 0, 0]))
    assert lengths.tolist() == [2, 0, 3, 3]
    assert records["parent"].tolist() == [0, 1, 2, 0, 2, 2, 0, 2]
    assert records["pieces"].tolist() == [300, 1, 1, 3, 2, 1, 3, 2]
    trees.check([source_file], source)
    assert all(isinstance(part.base, np.memmap) for part in (trees.parents, trees.pieces))


def test_three_bytes_a_word_unless_a_word_has_very_many_pieces(tmp_path):
    few = [([2, 0], [255, 1]), ([0], [3])]
    prefix, source, source_file = write_trees(tmp_path, few)
    assert bin_path(prefix).stat().st_size == 3 * 3
    trees = TreeFile(prefix)
    trees.check([source_file], source)
    assert trees.read(np.array([1, 0]))[0]["pieces"].tolist() == [3, 255, 1]
    assert trees.read(np.array([1, 0]))[0]["parent"].tolist() == [0, 2, 0]


LABELS = [([5, 4, 3], [7, 8, 9]), ([], []), ([255], [4]), ([4, 6], [3, 3])]


DICTIONARIES = b"of dictionaries".ljust(32, b".")


def write_labelled(folder):
    prefix, source, source_file = write_trees(folder)
    with TreeWriter(prefix, DICTIONARIES) as writer:
        for (parents, pieces), tokens, labels in zip(TREES, source, LABELS, strict=True):
            writer.add(parents, pieces, tokens, labels)
        writer.finish([source_file])
    return prefix, source, source_file


def test_labels_are_read_where_they_are_asked_for(tmp_path):
    prefix, source, source_file = write_labelled(tmp_path)
    bare, full = TreeFile(prefix), TreeFile(prefix, with_labels=True)
    order = np.array([3, 1, 0])
    assert bare.read(order)[0].dtype.names == ("parent", "pieces")
    records, lengths = full.read(order)
    assert lengths.tolist() == [2, 0, 3]
    assert records["relation"].tolist() == [4, 6, 5, 4, 3]
    assert records["tag"].tolist() == [3, 3, 7, 8, 9]
    assert records["parent"].tolist() == bare.read(order)[0]["parent"].tolist()
    assert full.labels == bare.labels == DICTIONARIES
    full.check([source_file], source)
    copy = pickle.loads(pickle.dumps(full))
    assert copy.read(order)[0]["tag"].tolist() == [3, 3, 7, 8, 9]


def test_trees_without_labels_are_of_version_2(tmp_path):
    """Programs of before read them, and they are no larger than before."""
    prefix, _, _ = write_trees(tmp_path)
    assert idx_path(prefix).read_bytes().startswith(b"POSATTN TREES 2\n")
    assert TreeFile(prefix).labels is None
    write_labelled(tmp_path)
    assert idx_path(prefix).read_bytes().startswith(b"POSATTN TREES 3\n")


def test_a_long_file(tmp_path):
    """Longer than the blocks that it is read and written in."""
    count = BLOCK + 1000
    parents = [0, *([1] * 99)]
    prefix, _, _ = write_trees(
        tmp_path, [(parents, [1 + k % 250 for k in range(100)])] * (count // 100)
    )
    records, _ = TreeFile(prefix).read(np.arange(count // 100))
    assert (records["parent"].reshape(-1, 100) == parents).all()
    assert (records["pieces"].reshape(-1, 100) == [1 + k % 250 for k in range(100)]).all()


def test_other_trees_of_the_same_size_are_refused(tmp_path):
    prefix, _, _ = write_trees(tmp_path)
    file = bin_path(prefix)
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    with pytest.raises(TreeError, match="was written for another version of this file"):
        TreeFile(prefix)


def test_nothing_appears_before_the_end(tmp_path):
    prefix = str(tmp_path / "x")
    with pytest.raises(RuntimeError), TreeWriter(prefix) as writer:
        writer.add([0], [1], np.array([5, 2]))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def change(source, source_file):
    source_file.write_bytes(source_file.read_bytes() + b"\0")
    return source


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s[:3], "4 trees for 3 sentences (the shorter one is a prefix of the long"),
        (lambda s: [s[0], *s], "4 trees for 5 sentences (the first difference is in sentence 2)"),
        (lambda s: [s[0], s[1], s[3], s[2]], "the first difference is in sentence 3"),
        (lambda s: [s[0][1:], *s[1:]], "the first difference is in sentence 1"),
    ],
)
def test_a_foreign_source_is_refused_with_both_names(tmp_path, spoil, message):
    prefix, source, source_file = write_trees(tmp_path)
    source = spoil(change(source, source_file))
    with pytest.raises(TreeError) as error:
        TreeFile(prefix).check([source_file], source)
    assert message in str(error.value)
    assert str(source_file) in str(error.value) and str(idx_path(prefix)) in str(error.value)


def test_the_same_sentences_in_another_file_are_accepted(tmp_path):
    prefix, source, source_file = write_trees(tmp_path)
    TreeFile(prefix).check([source_file], change(source, source_file))


@pytest.mark.parametrize("path", [bin_path, idx_path])
@pytest.mark.parametrize("keep", [0, 20, -1])
def test_torn_files_are_refused_by_name(tmp_path, path, keep):
    prefix, _, _ = write_trees(tmp_path)
    file = path(prefix)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(TreeError, match=str(file)):
        TreeFile(prefix)


def test_too_many_words_are_refused(tmp_path):
    with (
        TreeWriter(str(tmp_path / "x")) as writer,
        pytest.raises(TreeError, match=r"sentence 1 .* more than 65,535 words"),
    ):
        writer.add([0] + [1] * 65_536, [1] * 65_537, np.array([2]))


def test_the_fingerprint_sees_every_byte_of_a_small_file(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(bytes(200_000))
    before = fingerprint([file])
    file.write_bytes(bytes(150_000) + b"\1" + bytes(49_999))
    assert fingerprint([file]) != before


def test_a_large_file_is_sampled_from_end_to_end():
    size = BLOCK * 5000 + 17
    starts = block_starts(size)
    assert len(starts) == 1024 and starts[0] == 0 and starts[-1] == size - BLOCK
    assert block_starts(BLOCK + 1) == [0, BLOCK]
