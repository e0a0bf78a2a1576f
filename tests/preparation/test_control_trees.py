"""Data with control trees or without trees, and new text for the models of such data."""

import re
import shutil
import sys
from pathlib import Path
from unittest import mock

import pytest

from fairseq_posattn.cli import trees as command
from fairseq_posattn.errors import InputError
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees.conllu import read_conllu
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.drawing import depths
from support.files import lines_of
from support.in_process import call, hypotheses_and_scores, train, translating
from support.raw_corpus import CONTROLLED, KINDS, LANGUAGES, Corpus, contents, prepare, stored_trees

pytest.importorskip("stanza")

CONTROLS = {
    "shuffled": TreeControl("shuffled"),
    "flipped": TreeControl("own", 0.5, 2),
    "chain": TreeControl("chain"),
    "random": TreeControl("random"),
}


def stored_parents(data: Path, split: str) -> list[list[int]]:
    return [parents for parents, _ in stored_trees(data, split)]


def own_trees(corpus: Corpus, kind: str, split: str) -> list:
    """The sentences as they were parsed."""
    return list(read_conllu(f"{corpus.data(kind)}.work/{split}.conllu.xz"))


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("kind", ["shuffled", "flipped", "random"])
def test_each_sentence_has_the_tree_of_its_control(corpus, kind):
    data = corpus.data(kind)
    expected = [CONTROLS[kind].of(sentence) for sentence in own_trees(corpus, kind, "test")]
    assert stored_parents(data, "test") == [sentence.parents for sentence in expected]
    assert expected != own_trees(corpus, kind, "test")
    assert TextPipeline.load(data).config.control == CONTROLS[kind]


def test_a_chain_needs_no_parser(corpus):
    data = corpus.data("chain")
    texts = lines_of(Path(f"{data}.work/test.text.de"))
    expected = [list(range(len(line.split()))) for line in texts]
    assert stored_parents(data, "test") == expected
    assert not list(Path(f"{data}.work").glob("*.conllu*"))


@pytest.mark.long(ci=True)
def test_words_stay_and_trees_change(corpus, tmp_path, capsys):
    """With the same work folder, only what depends on the trees is made again."""
    before = corpus.data("stanza")
    shutil.copytree(f"{before}.work", tmp_path / "work")
    options = corpus.options(*CONTROLLED["shuffled"], "--work", tmp_path / "work")
    capsys.readouterr()
    prepare(*options, "--out", tmp_path / "shuffled")
    done = [line.split()[0] for line in capsys.readouterr().err.splitlines() if "..." in line]
    assert {name.split(".")[0] for name in done} == {"project", "filter", "binarize"}
    found, own = contents(tmp_path / "shuffled"), contents(before)
    changed = {name for name in own if own[name] != found[name]}
    assert {"prepare.json", "train.de-en.de.tree.bin"} < changed
    assert all(name == "prepare.json" or ".tree." in name for name in changed)
    assert found == contents(corpus.data("shuffled"))
    again = corpus.options(*KINDS["stanza"], "--work", tmp_path / "work", "--out", tmp_path / "own")
    prepare(*again)
    assert "project.train: already done" in capsys.readouterr().err


def printed_depths(output: str) -> dict[int, list[int]]:
    """The depths of the words of each sentence."""
    found: dict[int, list[int]] = {}
    for number, depth in re.findall(r"^TREE-(\d+)\t(\d+)\t", output, re.M):
        found.setdefault(int(number), []).append(int(depth))
    return found


@pytest.mark.long(ci=["shuffled", "chain"])
@pytest.mark.parametrize("kind", CONTROLS)
def test_new_text_gets_the_same_trees(corpus, asked, kind, tmp_path):
    """Raw lines are translated as the prepared ones are, and their trees are printed."""
    data, model = corpus.data(kind), corpus.model(kind)
    raw = "".join(f"{line}\n" for line in lines_of(corpus.folder / "raw/test.de"))
    common = [*translating(data, model), *LANGUAGES, "--batch-size", "4"]
    asking = [*common, "--buffer-size", "10", "--print-tree"]
    new = call("interactive", *asking, input=raw).output
    prepared = call("generate", *common).output
    assert len(hypotheses_and_scores(new)) == len(lines_of(corpus.folder / "raw/test.de"))
    assert {k: text for k, (text, _) in hypotheses_and_scores(new).items()} == {
        k: text for k, (text, _) in hypotheses_and_scores(prepared).items()
    }
    expected = {"chain": set(), "random": {"tokenize"}}.get(kind, {"tokenize", "parse"})
    assert {what for what, _ in asked} == expected
    stored = dict(enumerate(map(depths, stored_parents(data, "test"))))
    assert printed_depths(new) == stored
    flat = call("interactive", *asking, "--tree-control", "flat", input=raw).output
    assert {max(found) for found in printed_depths(flat).values()} == {1}


def test_data_without_trees(corpus, tmp_path):
    """They train a model that reads no trees, and are refused by one that does."""
    data = corpus.data("no trees")
    assert not list(data.glob("*.tree.*")) and not list(Path(f"{data}.work").glob("*.conllu*"))
    chain = contents(corpus.data("chain"))
    same = [name for name in contents(data) if name != "prepare.json"]
    assert {name: contents(data)[name] for name in same} == {name: chain[name] for name in same}
    train(data, tmp_path / "sequence", *LANGUAGES, "--max-update", "2")
    assert (tmp_path / "sequence/checkpoint_last.pt").exists()
    tree = ("--encoder-attention", "tree_relative")
    error = train(
        data, tmp_path / "tree", *LANGUAGES, *tree, "--max-update", "2", check=False
    ).error
    assert "the data have no tree file" in str(error)


def test_what_cannot_be_is_refused(corpus, tmp_path, capsys):
    options = corpus.options(*CONTROLLED["no trees"], "--out", tmp_path / "data")
    with pytest.raises(InputError, match="choose a parser, or one of the controls chain, reversed"):
        prepare(*options, "--control", "shuffled")
    with pytest.raises(SystemExit):
        prepare(*options, "--flip", "1.5")
    assert "expected a number from 0 to 1, found '1.5'" in capsys.readouterr().err
    common = [*translating(corpus.data("chain"), corpus.model("chain")), *LANGUAGES]
    error = call("generate", *common, "--tree-control", "straight", check=False).error
    assert "'straight' is not a kind of control tree; use one of own, shuffled, chain" in str(error)


CONLLU = """\
# text = Geh im Wald!
1\tGeh\tgehen\tVERB\tVB\tMood=Imp\t0\troot\t0:root\t_
2-3\tim\t_\t_\t_\t_\t_\t_\t_\t_
2\tin\tin\tADP\t_\t_\t4\tcase\t4:case\t_
3\tdem\tder\tDET\t_\t_\t4\tdet\t4:det\t_
3.1\tnull\t_\t_\t_\t_\t_\t_\t4:x\t_
4\tWald\tWald\tNOUN\t_\t_\t1\tobl\t1:obl\tSpaceAfter=No
5\t!\t!\tPUNCT\t_\t_\t1\tpunct\t1:punct\t_

# text =

1\tJa\tja\tINTJ\t_\t_\t_\t_\t_\t_

"""


def controlled(tmp_path, *options, text=CONLLU, out="out.conllu") -> str:
    (tmp_path / "in.conllu").write_text(text)
    argv = ["posattn trees", tmp_path / "in.conllu", "--out", tmp_path / out, *options]
    with mock.patch.object(sys, "argv", list(map(str, argv))):
        command.main()
    return (tmp_path / out).read_text() if out.endswith("conllu") else ""


def test_a_treebank_keeps_all_but_its_trees(tmp_path):
    chain = controlled(tmp_path, "--control", "chain").split("\n")
    given = CONLLU.split("\n")
    heads = {"1": "0", "2": "1", "3": "2", "4": "3", "5": "4"}
    assert len(chain) == len(given)
    for before, after in zip(given, chain, strict=True):
        old, new = before.split("\t"), after.split("\t")
        if old[0] in heads and old[1] != "Ja":
            assert new[6:9] == [heads[old[0]], "root" if heads[old[0]] == "0" else "dep", "_"]
            assert new[:6] + new[9:] == old[:6] + old[9:]
        elif old[0] != "1":
            assert after == before


def test_a_shuffled_treebank(tmp_path):
    controlled(tmp_path, "--control", "shuffled", "--control-seed", 3)
    [own, *_] = read_conllu(tmp_path / "in.conllu")
    [found, *rest] = read_conllu(tmp_path / "out.conllu")
    assert found.parents == TreeControl("shuffled", seed=3).of(own).parents
    assert found.multiword == own.multiword
    assert [sentence.parents for sentence in rest] == [[], None]
    controlled(tmp_path, "--control", "shuffled", "--control-seed", 3, out="out.conllu.xz")
    assert [s.parents for s in read_conllu(tmp_path / "out.conllu.xz")] == [found.parents, [], None]
