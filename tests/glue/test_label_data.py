"""Labels of words on every way into a model: binarised, live, given by a program, of controls."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_posattn.core.attention.sample_batch import some_labels
from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.data.label_dictionaries import LabelDictionaries
from fairseq_posattn.glue.data.tree_files import load_tree_file
from fairseq_posattn.preparation.project import ProjectionInputs, projected
from fairseq_posattn.trees import Parsed, TreeError, read_conllu
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.labels import Labels
from fairseq_posattn.trees.store import TreeFile, bin_path
from support.commands import binarize, project, step
from support.in_process import (
    batch,
    build,
    end_of,
    generate,
    hypotheses_and_scores,
    interactive,
    train,
)

ALL_LABELS = [
    *("--encoder-positions", "sequence + tree_depth + relation_embedding + tag_embedding"),
    *("--encoder-attention", "tree_labels + tree_gcn@0"),
    *("--cross-attention", "tree_depth_bias"),  # the trees go through beam search
]
SPLITS = ("train", "dev", "test")


def subtyped(conllu: Path, out: Path) -> None:
    """Write a treebank in which every second determiner has a relation with a subtype."""
    lines, seen = [], 0
    for line in conllu.read_text().splitlines():
        columns = line.split("\t")
        if len(columns) == 10 and columns[3] == "DET":
            seen += 1
            columns[7] += ":sub" if seen % 2 else ""
        lines.append("\t".join(columns))
    out.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def labelled(toy_data, tmp_path_factory) -> Path:
    """The toy corpus with labels, made by the real steps."""
    toy, folder = toy_data.parent, tmp_path_factory.mktemp("labelled")
    for split in SPLITS:
        subtyped(toy / f"raw/{split}.src.conllu", folder / f"{split}.conllu")
        step("extract", folder / f"{split}.conllu", "--out", folder / split)
        for side in ("src", "tgt"):
            shutil.copy(toy / f"{split}.{side}", folder / f"{split}.{side}")
        project(folder / split, "--labels", folder / f"{split}.labels")
    binarize(folder, folder / "data")
    return folder


@pytest.fixture(scope="module")
def trained(labelled, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(labelled / "data", folder, *ALL_LABELS, "--max-update", "12")
    return folder / "checkpoint_last.pt"


def test_two_more_bytes_a_word(labelled, toy_data):
    prefix = "train.src-tgt.src"
    bare, full = (bin_path(str(data / prefix)) for data in (toy_data, labelled / "data"))
    words = len(TreeFile(str(toy_data / prefix)).parents)
    assert full.stat().st_size - bare.stat().st_size == 2 * words


@pytest.mark.parametrize("subtypes", ["cut", "keep"])
def test_what_is_stored(labelled, tmp_path, subtypes):
    """The numbers of the labels, read back by the dictionaries, are the columns of the CoNLL-U."""
    data = tmp_path / "data"
    binarize(labelled, data, "--label-subtypes", subtypes)
    dictionaries = LabelDictionaries.load(data, "src")
    trees = load_tree_file(str(data / "test.src-tgt.src"), dictionaries)
    for k, sentence in enumerate(read_labelled(labelled / "test.conllu")):
        records, _ = trees.read(np.array([k]))
        kept = [name if subtypes == "keep" else name.split(":")[0] for name in sentence.relations]
        assert [dictionaries.relations[n] for n in records["relation"]] == kept
        assert [dictionaries.tags[n] for n in records["tag"]] == [t.upos for t in sentence.tags]
    assert any(":sub" in symbol for symbol in dictionaries.relations.symbols) == (
        subtypes == "keep"
    )


def test_an_unseen_subtype_counts_as_its_relation():
    seen = Labels(["det:sub", "det:sub", "root", "_"], ["DET", "DET", "NOUN", "_"])
    kept = LabelDictionaries.of([seen], subtypes=True)
    assert kept.numbers(Labels(["det:sub", "det:no", "root"], ["DET", "X", "_"])) == (
        [4, 3, 5],  # nobody said what `det` is without a subtype
        [4, 3, 3],
    )
    cut = LabelDictionaries.of([seen], subtypes=False)
    assert cut.numbers(Labels(["det:sub", "det:no", "x"], ["DET", "_", "_"]))[0] == [4, 4, 3]


def test_the_most_frequent_labels_are_kept():
    many = [Labels([f"r{k}"] * (1 + k), ["_"] * (1 + k)) for k in range(300)]
    dictionaries = LabelDictionaries.of(many, subtypes=False)
    assert dictionaries.sizes == {"relations": 256, "tags": 4}
    assert max(dictionaries.numbers(Labels(["r299", "r0"], []))[0]) < 256
    assert dictionaries.numbers(Labels(["r0"], []))[0] == [3]
    assert dictionaries.lacks("tags") and not dictionaries.lacks("relations")


def test_labels_of_pieces(labelled):
    """Each piece has the label of its word; the end of sentence and padding have their own."""
    task, _, _ = build(labelled / "data", *ALL_LABELS)
    sample = batch(task, "test")
    fields = sample["net_input"]
    pad = task.source_dictionary.pad()
    tree = SourceTree.of_batch(fields["source_tree"], fields["src_tokens"] != pad)
    sentences = list(read_labelled(labelled / "test.conllu"))
    dictionaries = task.label_dictionaries
    for row, number in enumerate(sample["id"].tolist()):
        sentence = sentences[number]
        words = tree.words[row].tolist()
        relations = [name.split(":")[0] for name in sentence.relations]
        expected = [
            1 if w == -1 else 2 if w == max(words) else dictionaries.relations.index(relations[w])
            for w in words
        ]
        assert tree.relation_labels[row].tolist() == expected
        tags = [
            1
            if w == -1
            else 2
            if w == max(words)
            else dictionaries.tags.index(sentence.tags[w].upos)
            for w in words
        ]
        assert tree.tag_labels[row].tolist() == tags


def test_binarised_live_and_given_trees_are_the_same(labelled, trained):
    data = labelled / "data"
    expected = hypotheses_and_scores(generate(data, trained).output)
    sentences = list(read_labelled(labelled / "test.conllu"))
    text = "".join(f"{line}\n" for line in (labelled / "test.src").read_text().splitlines())
    live = interactive(
        data,
        trained,
        text,
        "--tree-file",
        labelled / "test.conllu",
        "--buffer-size",
        "100",
        "--batch-size",
        "16",
    )
    found = hypotheses_and_scores(live.output)
    assert {k: text for k, (text, _) in found.items()} == {k: t for k, (t, _) in expected.items()}
    for number, (_, score) in found.items():
        assert float(score) == pytest.approx(float(expected[number][1]), abs=1e-5)
    hub = hub_of(trained, data)
    trees = [
        Parsed(s.tokens, s.parents, s.words_of_token, s.relations, [t.upos for t in s.tags])
        for s in sentences
    ]
    found = hub.translate(text.splitlines(), trees=trees, beam=2, max_len_b=20)
    assert found == [expected[k][0] for k in range(len(sentences))]


def test_other_commands_read_models_with_labels(labelled, trained, toy_data, tmp_path):
    """Pictures of attention, heads, probes and printed trees take the parents alone."""
    data, test, codes = labelled / "data", labelled / "test.conllu", toy_data.parent / "codes"
    model = ("--path", trained, "--cpu")
    out = tmp_path / "examples.json"
    end_of("examples", data, *model, "--sentences", 0, 3, "--trees", test, "--out", out)
    shown = json.loads(out.read_text())
    sentences = list(read_conllu(test))
    assert [example["parents"] for example in shown] == [sentences[k].parents for k in (0, 3)]
    end_of("heads", data, *model, "--trees", test, "--out", tmp_path / "heads.json")
    assert (tmp_path / "heads.json").exists()
    end_of(
        *("probe", data, "--path", trained, "--heads", *([test] * 3), "--gold"),
        *("--work", tmp_path / "work", "--json", tmp_path / "probe.json", "--bpe", codes),
    )
    assert (tmp_path / "probe.json").exists()
    printed = generate(data, trained, "--print-tree").output
    depths = [line.split("\t")[1] for line in printed.splitlines() if line.startswith("TREE-0\t")]
    assert len(depths) == len(sentences[0].words)


def hub_of(checkpoint: Path, data: Path):
    from fairseq_posattn.glue.models.posattn_transformer import PosattnTransformerModel

    return PosattnTransformerModel.from_pretrained(
        str(checkpoint.parent), checkpoint.name, str(data), bpe=None
    )


def test_each_label_matters(labelled):
    """Another relation, or another tag, of one word changes the encoder's output."""
    task, model, _ = build(labelled / "data", *ALL_LABELS)
    fields = batch(task, "test")["net_input"]
    model.eval()

    def encoded(tree):
        encoder = model.encoder
        return encoder(fields["src_tokens"], source_tree=tree)["encoder_out"][0]

    before = encoded(fields["source_tree"])
    for kind in (2, 3):
        changed = fields["source_tree"].clone()
        changed[kind, 0, 0] = 3 if changed[kind, 0, 0] != 3 else 4
        difference = (encoded(changed) - before).abs().amax(dim=(0, 2))
        assert difference[0] > 1e-4 and (difference[1:] == 0).all()


def test_control_trees_move_labels_with_their_edges(labelled):
    """A shuffled tree has the same relations at other words, which keep their parts of speech."""
    start = labelled / "test"
    files = (f"{start}.words", f"{start}.parents", f"{start}.src")
    control = TreeControl("shuffled")
    inputs = ProjectionInputs(*files, control=control, labels=f"{start}.labels")
    moved = 0
    for tree, own in zip(projected(inputs), read_labelled(f"{start}.conllu"), strict=True):
        edges = list(zip(tree.parents, tree.labels.relations, strict=True))
        assert sorted(tree.labels.relations) == sorted(own.relations)
        assert [relation for parent, relation in edges if parent == 0] == ["root"]
        assert list(tree.labels.tags) == [tag.upos for tag in own.tags]
        moved += list(tree.labels.relations) != own.relations
    assert moved > 10


# data without labels


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--encoder-attention", "tree_labels"], "names of relations"),
        (["--encoder-positions", "sequence + tag_embedding"], "parts of speech"),
        (["--encoder-attention", "tree_gcn@0"], "names of relations"),
    ],
)
def test_data_without_labels_are_refused(toy_data, tmp_path, options, name):
    result = train(toy_data, tmp_path, *options, check=False)
    assert isinstance(result.error, (InputError, SystemExit))
    assert f"the data have no {name} (dict.src." in result.message
    assert "posattn-project --labels" in result.message


def test_data_without_parts_of_speech_are_refused(labelled, tmp_path):
    """As posattn-parse --no-tags leaves them out; relations alone are enough for others."""
    folder = tmp_path / "no_tags"
    folder.mkdir()
    for split in SPLITS:
        for kind in ("words", "parents", "src", "tgt"):
            shutil.copy(labelled / f"{split}.{kind}", folder)
        lines = (labelled / f"{split}.labels").read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        untagged = [f"{names}\t{' '.join('_' for _ in tags.split())}" for names, tags in rows]
        (folder / f"{split}.labels").write_text("\n".join(untagged) + "\n")
        project(folder / split, "--labels", folder / f"{split}.labels")
    binarize(folder, folder / "data")
    with pytest.raises(InputError, match="the data have no parts of speech"):
        build(folder / "data", "--encoder-positions", "sequence + tag_embedding")
    build(folder / "data", "--encoder-attention", "tree_labels")


def test_a_test_set_takes_the_dictionaries_of_the_training_data(labelled, tmp_path):
    step(
        *("binarize", "--source-lang", "src", "--target-lang", "tgt", "--only-source"),
        *("--srcdict", labelled / "data/dict.src.txt", "--testpref", labelled / "test"),
        *("--destdir", tmp_path / "more"),
    )
    for kind in ("relations", "tags"):
        name = f"dict.src.{kind}.txt"
        assert (tmp_path / "more" / name).read_text() == (labelled / "data" / name).read_text()
    own = LabelDictionaries.load(labelled / "data", "src")
    load_tree_file(str(tmp_path / "more/test.src-tgt.src"), own)


def test_trees_of_other_dictionaries_are_refused(labelled, toy_data):
    other = LabelDictionaries.of([Labels(["x"], ["Y"])], subtypes=False)
    for data in (labelled / "data", toy_data):
        with pytest.raises(TreeError, match="or those of other dictionaries"):
            load_tree_file(str(data / "test.src-tgt.src"), other)


def test_live_trees_without_labels_are_refused(labelled, trained):
    hub = hub_of(trained, labelled / "data")
    line = (labelled / "test.src").read_text().splitlines()[0]
    sentence = next(iter(read_conllu(labelled / "test.conllu")))
    bare = Parsed(sentence.tokens, sentence.parents)
    with pytest.raises(TreeError, match=r"has no relations, which the model reads; give them"):
        hub.translate([line], trees=[bare])
    half = Parsed(sentence.tokens, sentence.parents, relations=["det"] * len(sentence.words))
    with pytest.raises(TreeError, match=r"has no parts of speech, which the model reads"):
        hub.translate([line], trees=[half])
    odd = Parsed(sentence.tokens, sentence.parents, relations=["det"])
    with pytest.raises(TreeError, match="has 1 relations for"):
        hub.translate([line], trees=[odd])


def test_flat_trees_of_new_text_have_labels(labelled, trained):
    line = (labelled / "test.src").read_text().splitlines()[0]
    found = interactive(labelled / "data", trained, f"{line}\n", "--missing-tree", "flat")
    assert len(hypotheses_and_scores(found.output)) == 1


def test_models_without_labels_read_the_same_data(labelled, tmp_path):
    """Data with labels serve all models; those that read none get two numbers for each word."""
    task, _, _ = build(labelled / "data", "--encoder-attention", "tree_relative")
    assert len(batch(task, "test")["net_input"]["source_tree"]) == 2


def test_an_encoder_refuses_a_batch_without_labels(labelled):
    task, model, _ = build(labelled / "data", *ALL_LABELS)
    fields = batch(task, "test")["net_input"]
    with pytest.raises(InputError, match="reads labels of words"):
        model.encoder(fields["src_tokens"], source_tree=fields["source_tree"][:2])


def test_damaged_labels_of_a_line(labelled, tmp_path):
    for split in SPLITS:
        for kind in ("words", "parents", "src", "labels"):
            shutil.copy(labelled / f"{split}.{kind}", tmp_path)
    labels = tmp_path / "test.labels"
    lines = labels.read_text().splitlines()
    labels.write_text("\n".join([lines[0].replace("\t", " "), *lines[1:]]) + "\n")
    start = tmp_path / "test"
    message = end_of(
        *("project", "--words", f"{start}.words", "--parents", f"{start}.parents"),
        *("--labels", labels, "--pieces", f"{start}.src"),
    )
    assert f"{labels}:1: the labels must be" in message


def test_sample_labels_reach_many_numbers():
    """What the checks of mechanisms take for labels differs between words."""
    found = some_labels(torch.arange(12)[None])
    assert len(set(found[0].flatten().tolist())) > 3
