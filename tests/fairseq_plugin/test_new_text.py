"""Trees of new text: fairseq-interactive, the hub interface, fairseq-generate, ensembles."""

import re
from types import SimpleNamespace

import fairseq_cli.interactive
import pytest
import torch
from fairseq.models.transformer import TransformerModel

from fairseq_posattn.fairseq_plugin import interactive as loop
from fairseq_posattn.fairseq_plugin.models.posattn_transformer import PosattnTransformerModel
from fairseq_posattn.trees import TreeError
from fairseq_posattn.trees.conllu import read_conllu
from fairseq_posattn.trees.sentence import shortened
from support import in_process
from support.commands import FULL_TREE
from support.in_process import batch, build, generate, hypotheses_and_scores, interactive, train

SHORT = ("--max-len-b", "25")  # with --max-len-a it would depend on the batch
BPE = ("--bpe", "subword_nmt", "--bpe-codes")


class Text:
    """This is the test text: words and trees, in files and lists; `lines` as a user types them."""

    def __init__(self, folder):
        self.conllu = folder / "raw/test.src.conllu"
        self.pieces = (folder / "test.src").read_text().splitlines()
        sentences = list(read_conllu(self.conllu))
        self.lines = [" ".join(sentence.words) for sentence in sentences]
        self.parents = [sentence.parents for sentence in sentences]
        self.bpe = (*BPE, folder / "codes", "--remove-bpe")

    def file(self, path, order):
        """A CoNLL-U file with some of the trees, and the lines that belong to them."""
        blocks = self.conllu.read_text().strip().split("\n\n")
        path.write_text("".join(f"{blocks[k]}\n\n" for k in order))
        return path, "".join(f"{self.lines[k]}\n" for k in order)


@pytest.fixture(scope="module")
def text(toy_data):
    return Text(toy_data.parent)


@pytest.fixture(scope="module")
def two_trees(text):
    """Return the numbers of two sentences that have one string and two trees."""
    for k, line in enumerate(text.lines):
        for other in range(k):
            if text.lines[other] == line and text.parents[other] != text.parents[k]:
                return other, k
    raise AssertionError("the toy treebank has no ambiguous sentence")


# interactive


@pytest.mark.long(ci=True)
def test_interactive_gives_what_generate_gives(text, tree_model, toy_data):
    """It does so for the same sentences and trees, whatever the batches."""
    expected = hypotheses_and_scores(generate(toy_data, tree_model, "--remove-bpe").output)
    lines = "".join(f"{line}\n" for line in text.lines)
    options = (*text.bpe, "--tree-file", text.conllu)
    for batches in ((), ("--buffer-size", "17", "--batch-size", "5")):
        found = hypotheses_and_scores(
            interactive(toy_data, tree_model, lines, *options, *batches).output
        )
        assert same_translations(found, expected)


BATCHES = ("--buffer-size", "17", "--batch-size", "5", "--beam", "3", "--nbest", "3")


@pytest.mark.long(ci=True)
@pytest.mark.parametrize(
    "options",
    [("--print-alignment",), ("--constraints",), ("--sampling", "--seed", "3")],
    ids=lambda options: options[0],
)
def test_the_loop_prints_what_that_of_fairseq_prints(
    options, text, stock_model, toy_data, monkeypatch
):
    lines = "".join(f"{line}\t{line.split()[0]}\n" for line in text.lines[:40])
    given = (toy_data, stock_model, lines, *text.bpe, *BATCHES, *options)
    printed = []
    for main in (loop.main, fairseq_cli.interactive.main):
        monkeypatch.setattr(loop, "main", main)
        printed.append(re.findall(r"^[SCHDPA]-.*", interactive(*given).output, re.M))
    assert printed[0] == printed[1] and len(printed[0]) > 200


def test_a_byte_order_mark_before_the_first_line_changes_nothing(text, tree_model, toy_data):
    lines = "".join(f"{line}\n" for line in text.lines[:4])
    options = (*text.bpe, "--tree-file", text.conllu)
    plain, marked = (
        hypotheses_and_scores(interactive(toy_data, tree_model, given, *options).output)
        for given in (lines, f"\ufeff{lines}")
    )
    assert plain == marked


def same_translations(left, right) -> bool:
    """Texts equal, scores but for rounding: other batches, other sums."""
    assert left.keys() == right.keys()
    return all(
        left[k][0] == right[k][0] and abs(float(left[k][1]) - float(right[k][1])) < 1e-4
        for k in left
    )


@pytest.mark.parametrize("batches", [(), ("--buffer-size", "4", "--batch-size", "4")])
def test_one_string_with_two_trees(batches, two_trees, text, tree_model, toy_data, tmp_path):
    first, second = two_trees
    path, lines = text.file(tmp_path / "trees", [first, second, second, first])
    options = (*text.bpe, "--tree-file", path, *batches)
    found = hypotheses_and_scores(interactive(toy_data, tree_model, lines, *options).output)
    assert found[0] == found[3] != found[1] == found[2]
    assert found[0][1] != found[1][1]


def test_words_that_are_not_those_of_the_tree(text, tree_model, toy_data, tmp_path):
    path, lines = text.file(tmp_path / "trees", range(3))
    lines = lines.splitlines()
    swapped = f"{lines[0]}\n{lines[2]}\n"
    result = interactive(toy_data, tree_model, swapped, *text.bpe, "--tree-file", path, check=False)
    assert isinstance(result.error, TreeError)
    line = path.read_text().split("\n\n")[0].count("\n") + 3  # blocks begin with their first line
    beginnings = (f"'{shortened(lines[2])}'", f"'{shortened(lines[1])}'")
    for part in (f"{path}:{line}: ", *beginnings, "line 2", "tree 2"):
        assert part in str(result.error)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ["has no tree", "stanza", "conllu", "--tree-file", "--missing-tree flat"]),
        (["--tree-provider", "conllu"], ["--tree-file"]),
        (["--tree-file", "nowhere.conllu"], ["nowhere.conllu"]),
    ],
)
def test_without_a_tree(chosen, expected, text, tree_model, toy_data):
    line = f"{text.lines[0]}\n"
    result = interactive(toy_data, tree_model, line, *text.bpe, *chosen, check=False)
    assert all(part in str(result.error) for part in expected)


def flat(path, lines):
    """Return the flat tree, in which each word is a child of the first one."""
    blocks = []
    for line in lines:
        rows = enumerate(line.split(), start=1)
        heads = [f"{k}\t{word}" + "\t_" * 4 + f"\t{int(k > 1)}" + "\t_" * 3 for k, word in rows]
        blocks.append("\n".join([*heads, "", ""]))
    path.write_text("".join(blocks))
    return path


def test_fewer_trees_than_lines(text, tree_model, toy_data, tmp_path):
    path, _ = text.file(tmp_path / "trees", range(2))
    lines = "".join(f"{line}\n" for line in text.lines[:3])
    options = (*text.bpe, "--tree-file", path)
    result = interactive(toy_data, tree_model, lines, *options, check=False)
    assert f"the sentence '{text.lines[2]}' has no tree" in str(result.error)
    assert set(hypotheses_and_scores(result.output)) == {0, 1}
    options = (*options, "--missing-tree", "flat")
    whole = hypotheses_and_scores(interactive(toy_data, tree_model, lines, *options).output)
    assert set(whole) == {0, 1, 2}


# the hub interface


@pytest.fixture(scope="module")
def hub(tree_model, toy_data):
    return loaded(tree_model, toy_data)


def loaded(checkpoint, data, **options):
    kind = PosattnTransformerModel if "tree" in str(checkpoint) else TransformerModel
    codes = {"bpe": "subword_nmt", "bpe_codes": str(data.parent / "codes")}
    return in_process.hub(checkpoint, data, kind, **codes, **options)


@pytest.fixture(scope="module")
def expected(text, tree_model, toy_data):
    output = interactive(
        toy_data,
        tree_model,
        "".join(f"{line}\n" for line in text.lines),
        *(*text.bpe, "--tree-file", text.conllu, "--max-len-b", "200"),  # as the hub has it
    ).output
    return [hypothesis for hypothesis, _ in hypotheses_and_scores(output).values()]


@pytest.mark.long(ci=True)
def test_hub_translates_with_given_trees(hub, text, expected):
    assert hub.translate(text.lines, beam=2, trees=text.parents) == expected
    assert hub.translate(text.lines[7], beam=2, trees=text.parents[7]) == expected[7]


def test_hub_translates_with_a_tree_file(text, tree_model, toy_data, expected):
    hub = loaded(tree_model, toy_data, tree_file=str(text.conllu))
    assert hub.translate(text.lines[:9], beam=2) == expected[:9]
    assert hub.translate(text.lines[9], beam=2) == expected[9]  # the file goes on


def test_a_control_replaces_the_trees_that_a_program_gives(hub, text, tree_model, toy_data):
    """The reversed chain replaces any tree, and sentences that have none get it, too."""
    lines, own = text.lines[:3], text.parents[:3]
    reversed_trees = [[*range(2, len(line.split()) + 1), 0] for line in lines]
    expected = hub.translate(lines, beam=2, trees=reversed_trees)
    assert expected != hub.translate(lines, beam=2, trees=own)
    controlled = loaded(tree_model, toy_data, tree_control="reversed")
    assert controlled.translate(lines, beam=2, trees=own) == expected
    assert controlled.translate(lines, beam=2, trees=[None] * 3) == expected
    assert controlled.translate(lines, beam=2) == expected


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        (None, "has no tree; choose a tree provider"),
        ([None], "has no tree; choose a tree provider"),
        ([], "got 0 trees for 1 sentences"),
        ([[0, 1]], "got 2 parents for the"),
    ],
)
def test_hub_refuses_trees_that_do_not_fit(hub, text, trees, message):
    with pytest.raises(TreeError, match=message):
        hub.translate([text.lines[0]], trees=trees)


def test_hub_of_a_stock_model(stock_model, toy_data, text):
    hub = loaded(stock_model, toy_data)
    lines = "".join(f"{line}\n" for line in text.lines[:5])
    found = hypotheses_and_scores(interactive(toy_data, stock_model, lines, *text.bpe).output)
    assert hub.translate(text.lines[:5], beam=2) == [found[k][0] for k in range(5)]


# generate


@pytest.mark.long(ci=True)
def test_generate_without_tree_files(bare_data, tree_model, toy_data, text, tmp_path):
    result = generate(bare_data, tree_model, check=False)
    assert isinstance(result.error, TreeError)
    for part in (str(bare_data / "test.src-tgt.src.tree.idx"), "--missing-tree flat"):
        assert part in str(result.error)
    output = generate(bare_data, tree_model, "--missing-tree", "flat").output
    assert "its sentences are given flat trees" in output
    controlled = generate(bare_data, tree_model, "--tree-control", "flat").output
    assert same_translations(*map(hypotheses_and_scores, (output, controlled)))
    shuffled = ("--missing-tree", "flat", "--tree-control", "shuffled")
    other = generate(bare_data, tree_model, *shuffled).output
    assert not same_translations(*map(hypotheses_and_scores, (output, other)))
    path = flat(tmp_path / "flat.conllu", text.lines)
    lines = "".join(f"{line}\n" for line in text.pieces)
    expected = interactive(toy_data, tree_model, lines, "--tree-file", path).output
    assert same_translations(*map(hypotheses_and_scores, (output, expected)))


def test_a_stock_model_loads_no_trees(bare_data, stock_model):
    output = generate(bare_data, stock_model).output
    assert len(hypotheses_and_scores(output)) == 60
    assert "trees" not in output.split("loading model(s)")[1]


def test_a_model_without_trees_trains_without_tree_files(bare_data, tmp_path):
    train(bare_data, tmp_path / "run", "--encoder-attention", "relative")
    result = train(bare_data, tmp_path / "other", *FULL_TREE, check=False)
    assert "the data have no tree file" in str(result.error)


# ensembles


@pytest.mark.long
def test_ensemble_of_a_tree_model_and_a_stock_one(text, models, tree_model, stock_model, toy_data):
    """In either order, with the same result from generate and interactive, unlike either alone."""
    lines = "".join(f"{line}\n" for line in text.pieces)
    trees = ("--tree-file", text.conllu, "--buffer-size", "9", "--batch-size", "4")
    alone = [
        hypotheses_and_scores(generate(toy_data, m, *SHORT).output)
        for m in (tree_model, stock_model)
    ]
    found = []
    for paths in (f"{tree_model}:{stock_model}", f"{stock_model}:{tree_model}"):
        found.append(hypotheses_and_scores(generate(toy_data, paths, *SHORT).output))
        typed = hypotheses_and_scores(interactive(toy_data, paths, lines, *trees, *SHORT).output)
        assert same_translations(typed, found[-1])
    assert same_translations(*found)
    assert found[0] not in alone


def test_the_model_says_what_it_misses(toy_data):
    """It is used from Python without the task."""
    task, model, _ = build(toy_data, *FULL_TREE)
    fields = batch(task)["net_input"]
    del fields["source_tree"]
    with torch.no_grad(), pytest.raises(ValueError, match="--task structured_translation"):
        model(**fields)


def test_several_roots_in_new_text(text, tree_model, toy_data, tmp_path):
    """As in the preparation: an error, or the first stays and the others hang from it."""
    line = text.lines[0]
    words = line.split()

    def conllu(parents):
        path = tmp_path / "roots.conllu"
        columns = "{}\t{}\t_\t_\t_\t_\t{}\t_\t_\t_\n".format
        rows = [columns(k, w, p) for k, (w, p) in enumerate(zip(words, parents, strict=True), 1)]
        path.write_text("".join(rows) + "\n")
        return "--tree-file", path

    def translate(parents, *options, **kwargs):
        pieces = f"{text.pieces[0]}\n"
        return interactive(toy_data, tree_model, pieces, *conllu(parents), *options, **kwargs)

    several = [0] * len(words)
    assert "--several-roots first" in translate(several, check=False).message
    found = translate(several, "--several-roots", "first").output
    expected = translate([0, *([1] * (len(words) - 1))]).output
    assert same_translations(*map(hypotheses_and_scores, (found, expected)))


@pytest.mark.long(ci=True)
def test_a_generator_is_made_again_and_again(toy_data, tree_model, stock_model):
    """The hub makes one for each call; a stock model in an ensemble is prepared once."""
    task, model, _ = build(toy_data, *FULL_TREE)
    _, stock, _ = build(toy_data, "--arch", "transformer_tiny")
    for _ in range(1200):
        task.build_generator([model, stock], SimpleNamespace(beam=1))
    fields = batch(task)["net_input"]
    with torch.no_grad():
        stock(**fields)
