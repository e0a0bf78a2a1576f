"""The loader: whatever fairseq does to the sentences, each keeps its own tree."""

import shutil

import pytest
import torch
from fairseq.data import indexed_dataset

from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.fairseq_plugin.tree_data import TreeDataset
from fairseq_posattn.trees import TreeError
from support.commands import FULL_TREE
from support.in_process import build, train

PADDING = -1


# plain reading of the text files


def plain(start) -> list[tuple[list[int], list[int]]]:
    """Return (word of each piece, parent of each word) of each sentence, counted from 0."""
    trees = start.with_name(f"{start.name}.trees").read_text().splitlines()
    pairs = zip(start.read_text().splitlines(), trees, strict=True)
    return [(plain_words(line), plain_parents(tree)) for line, tree in pairs]


def plain_words(line: str) -> list[int]:
    words, word = [], 0
    for piece in line.split():
        words.append(word)
        word += not piece.endswith("@@")
    return words


def plain_parents(tree: str) -> list[int]:
    parents = []
    for word, token in enumerate(tree.split()):
        parent = int(token.split(":")[0])
        parents.append(word if parent == 0 else parent - 1)
    return parents


def check(sample: dict, expected: list, pad: int, kept: int | None = None) -> list[int]:
    """Each row of a batch against the plain reading of its sentence; `kept`: pieces of each."""
    fields = sample["net_input"]
    tree = SourceTree.of_batch(fields["source_tree"], fields["src_tokens"] != pad)
    end = tree.parents.size(1)  # a word after all others
    rows = zip(sample["id"].tolist(), fields["src_tokens"], tree.words, tree.parents, strict=True)
    for number, tokens, words, parents in rows:
        piece_words, word_parents = expected[number]
        count = len(word_parents)
        assert words.shape == tokens.shape
        assert words[tokens != pad].tolist() == [*piece_words[:kept], end]
        assert (words[tokens == pad] == PADDING).all()
        assert parents[:count].tolist() == word_parents
        assert parents[count:].tolist() == list(range(count, len(parents)))
    return sample["id"].tolist()


# batches


def loaded(data, split="train", combine=False, left_pad=True, options=(), epoch=1):
    task, _, _ = build(data, *FULL_TREE, *options)
    task.cfg.left_pad_source = left_pad
    task.load_dataset(split, epoch=epoch, combine=combine)
    assert isinstance(task.dataset(split), TreeDataset)
    return task


def ids_checked(task, expected, split="train", kept=None, shuffle=True, **batching) -> list[int]:
    """Runs through an epoch, with every batch checked; the numbers of the sentences it had."""
    batching = {"max_tokens": 400, "seed": 3, "disable_iterator_cache": True, **batching}
    iterator = task.get_batch_iterator(task.dataset(split), **batching)
    pad = task.source_dictionary.pad()
    samples = list(filter(None, iterator.next_epoch_itr(shuffle=shuffle)))  # a shard ends on {}
    assert len(samples) > 1
    assert any(sample["net_input"]["src_tokens"].eq(pad).any() for sample in samples)
    return [number for sample in samples for number in check(sample, expected, pad, kept)]


@pytest.fixture(scope="module")
def train_set(toy_data):
    return plain(toy_data.parent / "train.src")


@pytest.fixture(scope="module")
def dev_set(toy_data):
    return plain(toy_data.parent / "dev.src")


@pytest.mark.parametrize("left_pad", [True, False], ids=["left", "right"])
@pytest.mark.parametrize(
    "batching",
    [
        {},
        {"shuffle": False},
        {"max_tokens": 97},
        {"max_tokens": None, "max_sentences": 7},
        {"required_batch_size_multiple": 8},
        # fairseq takes ten seconds to end several workers
        pytest.param({"num_workers": 2}, marks=pytest.mark.long),
        {"epoch": 4, "grouped_shuffling": True},
    ],
    ids=str,
)
def test_every_batch_has_its_trees(left_pad, batching, toy_data, train_set):
    task = loaded(toy_data, left_pad=left_pad)
    found = ids_checked(task, train_set, **batching)
    assert sorted(found) == list(range(400))  # a multiple of 8


@pytest.mark.parametrize("split", ["valid", "test"])
def test_other_splits(split, toy_data):
    task = loaded(toy_data, split)
    expected = plain(toy_data.parent / f"{'dev' if split == 'valid' else split}.src")
    assert sorted(ids_checked(task, expected, split, shuffle=False)) == list(range(60))


@pytest.mark.parametrize("left_pad", [True, False], ids=["left", "right"])
def test_truncated_sources(left_pad, toy_data, train_set):
    """The last pieces are dropped, but the tree stays whole."""
    options = ("--truncate-source", "--max-source-positions", "12")
    task = loaded(toy_data, options=options, left_pad=left_pad)
    assert any(len(words) > 11 for words, _ in train_set)
    found = ids_checked(task, train_set, kept=11)
    assert sorted(found) == list(range(400))


@pytest.mark.long(ci=True)
def test_filtering_by_length(toy_data, train_set):
    """This is what --skip-invalid-size-inputs-valid-test does, and the training set always."""
    task = loaded(toy_data)
    found = ids_checked(task, train_set, max_positions=(16, 1024), ignore_invalid_inputs=True)
    short = [k for k, (words, _) in enumerate(train_set) if len(words) < 16]
    assert 8 < len(short) < 392
    assert set(found) <= set(short)
    assert len(found) > len(short) - 8


@pytest.fixture(scope="module")
def joined(toy_data, tmp_path_factory):
    """train, and the development set as train1 beside it."""
    folder = tmp_path_factory.mktemp("joined") / "data"
    shutil.copytree(toy_data, folder)
    for file in list(folder.glob("valid.*")):
        shutil.copy(file, folder / file.name.replace("valid", "train1"))
    return folder


@pytest.mark.parametrize(
    ("options", "times"),
    [((), 1), (("--upsample-primary", "1"), 1), (("--upsample-primary", "3"), 3)],
    ids=["default", "once", "thrice"],
)
@pytest.mark.parametrize("truncated", [False, True], ids=["whole", "truncated"])
def test_concatenated_data(options, times, truncated, joined, train_set, dev_set):
    if truncated:
        options = (*options, "--truncate-source", "--max-source-positions", "12")
    task = loaded(joined, combine=True, options=options)
    expected = train_set * times + dev_set
    found = ids_checked(task, expected, kept=11 if truncated else None)
    assert sorted(found) == list(range(400 * times + 60))


def test_a_folder_for_each_epoch(toy_data, joined, tmp_path, train_set, dev_set):
    second = tmp_path / "second"
    shutil.copytree(toy_data, second, ignore=shutil.ignore_patterns("train.*"))
    for file in list(second.glob("valid.*")):
        shutil.copy(file, second / file.name.replace("valid", "train"))
    (second / "checksums.json").unlink()  # those of the other texts
    for epoch, expected in ((1, train_set), (2, dev_set), (3, train_set)):
        task = loaded(f"{toy_data}:{second}", epoch=epoch)
        found = ids_checked(task, expected)
        assert sorted(found) == list(range(len(expected)))


def test_flat_trees_of_truncated_sources(bare_data, train_set):
    """Words are counted in what is left, a word that is cut in two is one."""
    options = ("--missing-tree", "flat", "--truncate-source", "--max-source-positions", "12")
    task = loaded(bare_data, options=options)
    kept = [words[:11] for words, _ in train_set]
    expected = [(words, [0] * (words[-1] + 1)) for words in kept]
    assert sorted(ids_checked(task, expected)) == list(range(400))


def test_a_sentence_reads_the_same_in_any_company(toy_data):
    """The model's output for a sentence does not depend on its batch, nor on the side padded."""
    outputs = []
    for left_pad in (True, False):
        task, model, _ = build(toy_data, *FULL_TREE)
        task.cfg.left_pad_source = left_pad
        task.load_dataset("valid")
        dataset = task.dataset("valid")
        for numbers in ([3], [3, 0, 1], list(range(12))):
            sample = dataset.collater([dataset[k] for k in numbers])
            fields = sample["net_input"]
            row = sample["id"].tolist().index(3)
            out = model.eval().encoder(
                fields["src_tokens"], fields["src_lengths"], source_tree=fields["source_tree"]
            )["encoder_out"][0]
            outputs.append(out[fields["src_tokens"][row] != task.src_dict.pad(), row].detach())
    for output in outputs[1:]:
        assert torch.allclose(output, outputs[0], atol=1e-5)


# files


@pytest.fixture
def copied(toy_data, tmp_path):
    """A copy to be spoilt; `prefix`: of its training source."""
    shutil.copytree(toy_data, tmp_path / "data")
    return tmp_path / "data"


def prefix_of(data) -> str:
    return str(data / "train.src-tgt.src")


def rewrite_source(data, change) -> None:
    """The training source with its sentences changed, as if it had been binarised again."""
    prefix = prefix_of(data)
    source = indexed_dataset.make_dataset(prefix, "mmap")
    sentences = [source[k].clone() for k in range(len(source))]
    del source
    change(sentences)
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=1000)
    for sentence in sentences:
        builder.add_item(sentence)
    builder.finalize(f"{prefix}.idx")
    (data / "checksums.json").unlink(missing_ok=True)  # only the trees tell now


def swap(sentences):
    assert len(sentences[20]) != len(sentences[4])
    sentences[20], sentences[4] = sentences[4], sentences[20]


def test_training_stops_at_a_mismatch(copied, tmp_path):
    rewrite_source(copied, swap)
    result = train(copied, tmp_path / "run", *FULL_TREE, check=False)
    assert isinstance(result.error, TreeError)
    assert "the first difference is in sentence 5;" in str(result.error)
