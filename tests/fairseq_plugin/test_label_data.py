"""Labels of words on every way into a model: binarised, live, given by a program, of controls."""

import json
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fairseq.data import Dictionary

from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.label_dictionaries import LabelDictionaries
from fairseq_posattn.fairseq_plugin.tree_data import load_tree_file
from fairseq_posattn.preparation.project import ProjectionInputs, projected
from fairseq_posattn.text.live.providers import PROVIDERS, TreeProvider
from fairseq_posattn.trees import Parsed, TreeError, read_conllu
from fairseq_posattn.trees.conllu import read_labelled
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.sentence import Labels, of_tokens
from support.commands import binarize, project, run, step
from support.in_process import (
    batch,
    build,
    end_of,
    generate,
    hub,
    hypotheses_and_scores,
    interactive,
    train,
)
from support.probes import SIZES, probe, write_tasks

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


@pytest.mark.long(ci=True)
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
        words = tree.words[row].tolist()

        def of_pieces(dictionary, labels, words=words):
            numbers = {-1: 1, max(words): 2} | {
                word: dictionary.index(label) for word, label in enumerate(labels)
            }
            return [numbers[word] for word in words]

        relations = [name.split(":")[0] for name in sentences[number].relations]
        tags = [tag.upos for tag in sentences[number].tags]
        assert tree.relation_labels[row].tolist() == of_pieces(dictionaries.relations, relations)
        assert tree.tag_labels[row].tolist() == of_pieces(dictionaries.tags, tags)


@pytest.mark.long(ci=True)
def test_binarised_live_and_given_trees_are_the_same(labelled, trained):
    data = labelled / "data"
    expected = hypotheses_and_scores(generate(data, trained).output)
    sentences = list(read_labelled(labelled / "test.conllu"))
    text = "".join(f"{line}\n" for line in (labelled / "test.src").read_text().splitlines())
    options = ("--tree-file", labelled / "test.conllu", "--buffer-size", "100")
    live = interactive(data, trained, text, *options, "--batch-size", "16")
    found = hypotheses_and_scores(live.output)
    assert {k: text for k, (text, _) in found.items()} == {k: t for k, (t, _) in expected.items()}
    for number, (_, score) in found.items():
        assert float(score) == pytest.approx(float(expected[number][1]), abs=1e-5)
    model = hub(trained, data, bpe=None)
    trees = [
        Parsed(s.tokens, s.parents, s.words_of_token, s.relations, [t.upos for t in s.tags])
        for s in sentences
    ]
    found = model.translate(text.splitlines(), trees=trees, beam=2, max_len_b=20)
    assert found == [expected[k][0] for k in range(len(sentences))]


@pytest.mark.long
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


def test_relations_of_further_roots(tmp_path):
    """A root that became a child of the first one is no root any more, as in posattn extract."""
    for kind, line in (("words", "a b c"), ("parents", "0 1 0"), ("src", "a b c")):
        (tmp_path / f"x.{kind}").write_text(f"{line}\n")
    (tmp_path / "x.labels").write_text("root obj root\tX Y Z\n")
    files = [tmp_path / f"x.{kind}" for kind in ("words", "parents", "src")]
    inputs = ProjectionInputs(*files, several_roots="first", labels=tmp_path / "x.labels")
    (tree,) = projected(inputs)
    assert list(tree.parents) == [0, 1, 1]
    assert list(tree.labels.relations) == ["root", "obj", "parataxis"]


def test_probes_of_models_with_labels(labelled, trained, toy_data, tmp_path):
    """The given trees keep their labels; another relation gives other vectors."""
    sentences = list(read_conllu(labelled / "train.conllu"))[: sum(SIZES.values())]
    codes, found = toy_data.parent / "codes", []
    for kind, relation in (("own", "dep"), ("other", "det")):
        folder = tmp_path / kind
        write_tasks(folder / "tasks", folder / "trees", sentences)
        for path in (folder / "trees").iterdir():
            path.write_text(path.read_text().replace("\tdep\t", f"\t{relation}\t"))
        ended = probe(
            *(labelled / "data", "--path", f"m={trained}", "--tasks", folder / "tasks"),
            *("--task", "SentLen", "--trees", folder / "trees", "--classifier", "linear"),
            *("--cpu", "--bpe", codes, "--json", folder / "x.json", "--work", folder / "work"),
            "--no-untrained",
        )
        assert ended.code == 0, ended.err
        (vectors,) = (folder / "work").rglob("*.npy")
        found.append(np.load(vectors))
    assert found[0].shape == found[1].shape and not np.allclose(*found)


# data without labels


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--encoder-attention", "tree_labels"], "relation names"),
        (["--encoder-positions", "sequence + tag_embedding"], "parts of speech"),
        (["--encoder-attention", "tree_gcn@0"], "relation names"),
    ],
)
def test_data_without_labels_are_refused(toy_data, tmp_path, options, name):
    result = train(toy_data, tmp_path, *options, check=False)
    assert isinstance(result.error, (InputError, SystemExit))
    assert f"this model reads {name}, but the data have none (dict.src." in result.message
    assert "posattn project --labels" in result.message


@pytest.mark.long(ci=True)
def test_data_without_parts_of_speech_are_refused(labelled, tmp_path):
    """As posattn parse --no-tags leaves them out; relations alone are enough for others."""
    folder = projected_anew(labelled, tmp_path / "no_tags")
    for split in SPLITS:
        lines = (labelled / f"{split}.labels").read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        untagged = [f"{names}\t{' '.join('_' for _ in tags.split())}" for names, tags in rows]
        (folder / f"{split}.labels").write_text("\n".join(untagged) + "\n")
        project(folder / split, "--labels", folder / f"{split}.labels")
    binarize(folder, folder / "data")
    with pytest.raises(InputError, match="reads parts of speech, but the data have none"):
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


def test_trees_of_other_dictionaries_are_refused(labelled, toy_data, tmp_path):
    other = LabelDictionaries.of([Labels(["x"], ["Y"])], subtypes=False)
    with pytest.raises(TreeError, match="the label dictionaries differ from those"):
        load_tree_file(str(labelled / "data/test.src-tgt.src"), other)
    with pytest.raises(TreeError, match="the trees have no word labels"):
        load_tree_file(str(toy_data / "test.src-tgt.src"), other)
    for dictionary in (labelled / "data").glob("dict.*"):
        shutil.copy(dictionary, tmp_path)
    (tmp_path / "dict.src.tags.txt").unlink()
    with pytest.raises(InputError, match=r"dict\.src\.tags\.txt: the file is missing"):
        LabelDictionaries.load(tmp_path, "src")


def projected_anew(labelled, folder, without=()):
    """The files before binarisation; the trees of some splits have no labels."""
    folder.mkdir()
    for split in SPLITS:
        for kind in ("words", "parents", "src", "tgt", "labels"):
            shutil.copy(labelled / f"{split}.{kind}", folder)
        labels = [] if split in without else ["--labels", folder / f"{split}.labels"]
        project(folder / split, *labels)
    return folder


@pytest.mark.long(ci=True)
def test_a_split_without_labels_has_none_in_the_data(labelled, trained, tmp_path):
    """It is not taken for one whose labels are unknown."""
    folder = projected_anew(labelled, tmp_path / "files", without=["test"])
    said = binarize(folder, folder / "data")
    assert "the trees have no word labels, so models that read labels" in said.stdout
    result = generate(folder / "data", trained, check=False)
    assert "test.src-tgt.src.tree.idx: the trees have no word labels" in result.message
    build(folder / "data", *ALL_LABELS)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("first", ["labelled", "bare"])
def test_a_file_with_some_labels_is_refused(labelled, tmp_path, first):
    folder = projected_anew(labelled, tmp_path / "files")
    trees = folder / "test.src.trees"
    lines = trees.read_text().splitlines()
    changed = 2 if first == "labelled" else 0
    lines[changed] = lines[changed].split("\t")[0]
    trees.write_text("\n".join(lines) + "\n")
    result = binarize(folder, folder / "data", check=False)
    assert result.returncode == 1
    line, has = (3, "no word labels") if first == "labelled" else (2, "word labels")
    assert f"{trees}:{line}: the line has {has}, unlike line 1" in result.stdout


def counted_otherwise(labelled, folder) -> Path:
    """The same text, whose relations are counted otherwise, so that they have other numbers."""
    projected_anew(labelled, folder)
    rows = [line.split("\t") for line in (folder / "train.src.trees").read_text().splitlines()]
    swap = {"det": "nsubj", "nsubj": "det"}
    changed = [
        "\t".join([tree, " ".join(swap.get(name, name) for name in names.split()), tags])
        for tree, names, tags in rows
    ]
    (folder / "train.src.trees").write_text("\n".join(changed) + "\n")
    binarize(folder, folder / "data")
    for kind, same in (("relations", False), ("tags", True), ("txt", True)):
        name = f"dict.src.{kind}.txt".replace("txt.txt", "txt")
        own, other = ((of / name).read_text() for of in (folder / "data", labelled / "data"))
        assert (own == other) == same
    return folder / "data"


@pytest.mark.long(ci=True)
def test_a_model_refuses_labels_with_other_numbers(labelled, trained, tmp_path):
    data = counted_otherwise(labelled, tmp_path / "files")
    for ended in (
        generate(data, trained, check=False),
        train(
            *(data, tmp_path / "run", *ALL_LABELS, "--max-update", "13"),
            *("--restore-file", str(trained)),
            check=False,
        ),
    ):
        assert isinstance(ended.error, InputError)
        assert "the label dictionaries of these data differ from those" in ended.message


@pytest.mark.long(ci=True)
def test_labels_take_the_numbers_that_the_model_knows(labelled, trained, tmp_path):
    """The labels of the test set are the same in both folders, and only their numbers differ."""
    data = counted_otherwise(labelled, tmp_path / "files")
    option = ("--labels-of", labelled / "data")
    found = generate(data, trained, *option).output
    expected = generate(labelled / "data", trained).output
    assert hypotheses_and_scores(found) == hypotheses_and_scores(expected)

    program = (sys.executable, "-m", "fairseq_posattn.cli.examples")
    common = ("--path", trained, "--cpu", "--sentences", "0")
    nowhere = generate(data, trained, "--labels-of", tmp_path / "nowhere", check=False)
    assert "nowhere: there is no such folder; give the path of the training data" in nowhere.message
    parts = (labelled / "data", ()), (data, option), (data, ())
    ended = [
        run(*program, folder, *common, *more, "--out", tmp_path / f"{k}.json", check=False)
        for k, (folder, more) in enumerate(parts)
    ]
    assert [one.returncode for one in ended] == [0, 0, 1], ended[1].stdout
    assert "with --labels-of" in ended[2].stdout
    assert (tmp_path / "0.json").read_text() == (tmp_path / "1.json").read_text()


def test_labels_by_other_dictionaries(labelled, tmp_path, caplog):
    """A relation that is unknown there, or known without its subtype only, and all the others."""
    binarize(labelled, tmp_path / "kept", "--label-subtypes", "keep")
    own = LabelDictionaries.load(tmp_path / "kept", "src")
    names = sorted(
        {name.partition(":")[0] for name in own.relations.symbols[own.relations.nspecial :]}
    )
    other = LabelDictionaries(Dictionary(), Dictionary())
    for name in names[1:]:
        other.relations.add_symbol(name)
    for tag in reversed(own.tags.symbols[own.tags.nspecial :]):
        other.tags.add_symbol(tag)
    unknown = next(name for name in own.relations.symbols if name.startswith(names[0]))
    prefix = str(tmp_path / "kept/test.src-tgt.src")
    trees = load_tree_file(prefix, other, by_name=True)
    assert f"{prefix}: the model treats these labels as unknown: {unknown}" in caplog.messages
    trees = pickle.loads(pickle.dumps(trees))  # as for a worker that reads the data
    seen = set()
    for k, sentence in enumerate(read_labelled(labelled / "test.conllu")):
        records, _ = trees.read(np.array([k]))
        for record, relation, tag in zip(records, sentence.relations, sentence.tags, strict=True):
            plain = relation.partition(":")[0]
            expected = plain if plain in names[1:] else other.relations.unk_word
            assert other.relations[record["relation"]] == expected
            assert other.tags[record["tag"]] == tag.upos
            seen.add((":" in relation, plain == names[0]))
    assert {(False, False), (True, False)} <= seen and any(unknown for _, unknown in seen)
    other.save(tmp_path / "kept", "src")  # nobody knows any more what the numbers mean
    with pytest.raises(TreeError, match="dictionaries differ from those of the training data"):
        load_tree_file(prefix, other, by_name=True)


def test_live_trees_without_labels_are_refused(labelled, trained):
    model = hub(trained, labelled / "data", bpe=None)
    line = (labelled / "test.src").read_text().splitlines()[0]
    sentence = next(iter(read_conllu(labelled / "test.conllu")))
    bare = Parsed(sentence.tokens, sentence.parents)
    with pytest.raises(TreeError, match=r"has no relations, which the model reads; give them"):
        model.translate([line], trees=[bare])
    half = Parsed(sentence.tokens, sentence.parents, relations=["det"] * len(sentence.words))
    with pytest.raises(TreeError, match=r"has no parts of speech, which the model reads"):
        model.translate([line], trees=[half])
    words = len(sentence.words)
    for relations, message in (
        (["det"], f"has 1 relations for {words} words"),
        ("det" * words, "has the text 'det"),
        ([None] * words, "has None among its relations; give strings"),
    ):
        odd = replace(bare, relations=relations)
        with pytest.raises(TreeError, match=message):
            model.translate([line], trees=[odd])
    strings = replace(bare, relations=["det"] * words, tags=["DET"] * words)
    with pytest.raises(TreeError, match=r"has 'DET' among its tags; give strings in Parsed"):
        model.translate([line], trees=[strings])


@pytest.mark.long(ci=True)
def test_unknown_labels_of_a_tree_file(labelled, trained, tmp_path):
    """A sentence without labels is refused with its line, unless it may lack its tree, too."""
    blocks = (labelled / "test.conllu").read_text().split("\n\n")
    rows = [line.split("\t") for line in blocks[1].splitlines()]
    for row in rows:
        row[3:4] = ["_"] if len(row) == 10 else row[3:4]
    blocks[1] = "\n".join("\t".join(row) for row in rows)
    part = tmp_path / "part.conllu"
    part.write_text("\n\n".join(blocks))
    text = "".join(f"{line}\n" for line in (labelled / "test.src").read_text().splitlines())
    options = (labelled / "data", trained, text, "--tree-file", part, "--buffer-size", "100")
    refused = interactive(*options, check=False)
    line = blocks[0].count("\n") + 3
    assert f"{part}:{line}: the tree of" in refused.message
    assert "in column UPOS of --tree-file" in refused.message
    found = interactive(*options, "--missing-tree", "flat")
    assert len(hypotheses_and_scores(found.output)) == text.count("\n")


@pytest.mark.parametrize("control", ["chain", "own"])
def test_a_parser_is_asked_for_the_parts_of_speech(labelled, trained, monkeypatch, control):
    """A control may need no trees, and the model the tags that a provider of trees finds."""
    asked = []

    class Tagger(TreeProvider):
        name = "tagger"

        def parsed(self, lines):
            asked.extend(lines)
            return [
                of_tokens(words, [0, *[1] * (len(words) - 1)], None, words, ["DET"] * len(words))
                for words in (line.text.replace("@@ ", "").split() for line in lines)
            ]

    monkeypatch.setitem(PROVIDERS, "tagger", Tagger)
    line = (labelled / "test.src").read_text().splitlines()[0]
    options = ("--tree-provider", "tagger", "--tree-control", control)
    found = interactive(labelled / "data", trained, f"{line}\n", *options)
    assert len(asked) == 1 and len(hypotheses_and_scores(found.output)) == 1


def test_models_without_labels_read_the_same_data(labelled, tmp_path):
    """Data with labels serve all models; those that read none get two numbers for each word."""
    task, _, _ = build(labelled / "data", "--encoder-attention", "tree_relative")
    assert len(batch(task, "test")["net_input"]["source_tree"]) == 2


def test_an_encoder_refuses_a_batch_without_labels(labelled):
    task, model, _ = build(labelled / "data", *ALL_LABELS)
    fields = batch(task, "test")["net_input"]
    with pytest.raises(InputError, match="reads word labels"):
        model.encoder(fields["src_tokens"], source_tree=fields["source_tree"][:2])


def test_damaged_labels_of_a_line(labelled, tmp_path):
    start, labels = labelled / "test", tmp_path / "test.labels"
    labels.write_text((labelled / "test.labels").read_text().replace("\t", " ", 1))
    message = end_of(
        *("project", "--words", f"{start}.words", "--parents", f"{start}.parents"),
        *("--labels", labels, "--pieces", f"{start}.src"),
    )
    assert f"{labels}:1: expected" in message
