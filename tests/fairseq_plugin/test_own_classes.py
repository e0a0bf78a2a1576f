"""A user's own mechanism, position and tree provider are used, from --user-dir to a translation."""

import json
import sys

import pytest

from fairseq_posattn.cli import examples, tag
from fairseq_posattn.core import attention, positions
from fairseq_posattn.core.specification import UnknownNameError
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.posattn_transformer import PosattnTransformerModel
from fairseq_posattn.files.command_line import one_line
from fairseq_posattn.testing import check
from fairseq_posattn.text.live import providers
from support import own_classes, trainings
from support.commands import fairseq, run, training_options
from support.in_process import call, end_of, generate, hypotheses_and_scores, interactive, train

POSITIONS = "sequence + tree_depth + wave(periods=5|50)"
OWN = [
    *("--encoder-positions", POSITIONS, "--encoder-attention", "decay(limit=20)@0-1"),
    *("--decoder-positions", "sequence + wave", "--decoder-attention", "decay(growth=logarithmic)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Register the classes of the document in this process, and yield their folder."""
    with own_classes.registered(tmp_path_factory.mktemp("own")) as folder:
        yield folder


@pytest.fixture(scope="module")
def model(folder, toy_data, tmp_path_factory):
    """Train a model with all of them, and return its checkpoint."""
    runs = tmp_path_factory.mktemp("run")
    options = ("--user-dir", folder, "--max-update", "20", "--lr", "5e-3", "--disable-validation")
    output = train(toy_data, runs, *OWN, *options).output
    for part in (
        "--encoder-positions 'sequence + tree_depth(fuse=nonlinear) + wave(periods=5.0|50.0)'",
        "--encoder-attention 'decay(growth=linear, limit=20)@0-1'",
        "--decoder-positions 'sequence + wave(periods=7.0|31.0)'",
        "--decoder-attention 'decay(growth=logarithmic, limit=none)'",
    ):
        assert part in output
    return runs / "checkpoint_last.pt"


@pytest.fixture
def stranger(folder, monkeypatch):
    """A process in which nobody has registered anything."""
    for table, name in (
        (attention.MECHANISMS, "decay"),
        (positions.POSITIONS, "wave"),
        (providers.PROVIDERS, "chain"),
    ):
        monkeypatch.delitem(table, name)


def test_the_document_s_mechanism_keeps_the_contract(folder):
    for options in ("", "(limit=2)", "(growth=logarithmic, heads=0|2)"):
        check(f"decay{options}")


def test_the_document_s_commands_can_be_read(folder):
    found = own_classes.specifications()
    assert len(found) == 4
    for kind, text in found:
        specification = {
            "positions": positions.PositionSpecification,
            "attention": attention.AttentionSpecification,
        }[kind](text)
        assert str(type(specification)(str(specification))) == str(specification)


def test_help_lists_them(folder):
    for option, *expected in (
        ("encoder-attention", "decay", "    growth=linear ", "how the loss grows"),
        ("encoder-positions", "wave", "    periods=7.0|31.0 ", "periods of the waves"),
    ):
        start = ("--user-dir", folder, "--arch", "posattn_transformer")
        output = call("train", *start, f"--{option}", "help").output
        assert all(part in output for part in expected)


@pytest.mark.long(ci=True)
def test_generate_and_interactive_with_own_trees(model, folder, toy_data):
    """The provider's trees are used: flat ones give other translations or scores."""
    pieces = (toy_data.parent / "test.src").read_text().splitlines()[:8]
    text = "".join(f"{line}\n" for line in pieces)
    own = ("--user-dir", folder)
    chains = interactive(toy_data, model, text, *own, "--tree-provider", "chain", "--print-tree")
    flat = interactive(toy_data, model, text, *own, "--missing-tree", "flat")
    found, others = (hypotheses_and_scores(r.output) for r in (chains, flat))
    assert len(found) == len(others) == 8 and found != others
    depths = [line for line in chains.output.splitlines() if line.startswith("TREE-3\t")]
    assert [line.split("\t")[1] for line in depths] == [str(k) for k in range(len(depths))]
    assert len(hypotheses_and_scores(generate(toy_data, model, *own).output)) == 60


def test_generate_asks_a_lazy_provider_where_data_have_no_trees(model, folder, bare_data):
    output = generate(bare_data, model, "--user-dir", folder, "--tree-provider", "chain").output
    assert "has no trees, so its sentences are parsed now" in output
    assert len(hypotheses_and_scores(output)) == 60


def test_from_python(model, folder, toy_data):
    hub = PosattnTransformerModel.from_pretrained(
        *(str(model.parent), model.name, str(toy_data)),
        **{"user_dir": str(folder), "cpu": True, "tree_provider": "chain"},
    )
    pieces = (toy_data.parent / "test.src").read_text().splitlines()[:3]
    translated = hub.translate(pieces, beam=2)
    text = "".join(f"{line}\n" for line in pieces)
    own = ("--user-dir", folder, "--tree-provider", "chain")
    found = hypotheses_and_scores(interactive(toy_data, model, text, *own).output)
    assert translated == [found[k][0] for k in range(3)]


# what is missing


def test_a_checkpoint_that_needs_user_dir(stranger, model, toy_data):
    for program in (generate, lambda *a, **k: interactive(*a, "a b\n", **k)):
        error = program(toy_data, model, check=False).error
        assert isinstance(error, InputError) and not isinstance(error, UnknownNameError)
        line = one_line(f"error: {error}")
        assert line.startswith(f"error: {model}: the model uses the attention mechanism 'decay', ")
        assert line.endswith("pass the folder that registers it as --user-dir")


def test_examples_without_user_dir(stranger, model, toy_data, tmp_path):
    arguments = (toy_data, "--path", model, "--sentences", 0, "--out", tmp_path / "out", "--cpu")
    end = end_of("examples", *arguments)
    assert end.startswith("error: ") and end.endswith("registers it as --user-dir")
    assert not (tmp_path / "out").exists()


def test_a_provider_that_nobody_registered(stranger, model, toy_data):
    error = interactive(toy_data, model, "a\n", "--tree-provider", "chain", check=False).error
    assert isinstance(error, InputError)
    assert str(error) == (
        "no tree provider is called 'chain'; choose from conllu, none, stanza; "
        "import your own with --user-dir FOLDER"
    )


def test_a_provider_with_too_few_trees(folder, model, toy_data, monkeypatch):
    monkeypatch.setattr(providers.PROVIDERS["chain"], "parsed", lambda self, lines: [])
    own = ("--user-dir", folder, "--tree-provider", "chain")
    error = interactive(toy_data, model, "a\n", *own, check=False).error
    assert isinstance(error, InputError)
    assert "the tree provider Chain returned 0 trees for 1 lines" in str(error)


class Bare:
    """An entry of the table that derives from nothing and has no method `words`."""

    lazy = True

    @classmethod
    def from_options(cls, cfg, pipeline):
        return cls()

    def parsed(self, lines):
        return [providers.Sentence(line.tokens, [*range(len(line.tokens))]) for line in lines]


def test_a_lazy_provider_without_words(folder, model, toy_data, monkeypatch):
    """It gives what `chain` gives."""
    monkeypatch.setitem(providers.PROVIDERS, "bare", Bare)
    own = (toy_data, model, "a\nb c\n", "--user-dir", folder, "--tree-provider")
    bare, chain = (interactive(*own, name).output for name in ("bare", "chain"))
    assert hypotheses_and_scores(bare) == hypotheses_and_scores(chain) != {}


# posattn examples


def exported(monkeypatch, tmp_path, *arguments) -> list:
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["x", *map(str, arguments), "--out", str(out)])
    examples.main()
    return json.loads(out.read_text())


def test_examples_take_another_task(stock_model, toy_data, monkeypatch, tmp_path):
    """The options of the training's task are kept: here the languages and the padding."""
    common = (toy_data, "--path", stock_model, "--sentences", 0, "--beam", 2, "--cpu")
    found = [
        exported(monkeypatch, tmp_path, *common, *task)
        for task in ((), ("--task", "translation"), ("--task", "structured_translation"))
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "nothing"), "error: --task nothing is unknown; the nearest of "),
        (("--user-dir", "nowhere"), "error: --user-dir nowhere: there is no such folder"),
    ],
)
def test_examples_with_mistakes(arguments, message, stock_model, toy_data, tmp_path):
    common = (toy_data, "--path", stock_model, "--sentences", 0, "--out", tmp_path / "out.json")
    assert end_of("examples", *common, *arguments).startswith(message)
    assert not (tmp_path / "out.json").exists()


# posattn tag


def test_a_tagger_with_a_mechanism_of_one_s_own(folder, corpora, monkeypatch, tmp_path):
    own = ("--user-dir", folder)
    options = (*own, "--encoder-attention", "decay(limit=2)", "--max-update", "1")
    trainings.train("tagger", corpora, tmp_path, *options)
    (tmp_path / "text").write_text("the dog runs\n")
    common = (tmp_path / "checkpoint_last.pt", "--text", tmp_path / "text", "--cpu")
    common += ("--out", tmp_path / "tagged")
    monkeypatch.setattr(sys, "argv", ["posattn tag", *map(str, (*common, *own))])
    tag.main()
    assert len((tmp_path / "tagged").read_text().split()) == 3
    monkeypatch.delitem(attention.MECHANISMS, "decay")
    assert end_of("tag", *common).endswith("pass the folder that registers it as --user-dir")


# by the real command line


@pytest.mark.long
def test_the_command_lines(toy_data, tmp_path):
    folder = own_classes.make_folder(tmp_path)
    own = ("--user-dir", folder, *OWN, "--max-update", "2", "--disable-validation")
    checked = run(sys.executable, "-m", "fairseq_posattn.cli.check_mechanism", folder).stdout
    assert "decay(growth=logarithmic, heads=0|2)" in checked and "FAILED" not in checked
    trained = fairseq("train", *training_options(toy_data, tmp_path / "run", *own)).stdout
    assert "| loss " in trained or "loss=" in trained
    model = tmp_path / "run/checkpoint_last.pt"
    common = (toy_data, "--user-dir", folder, "--task", "structured_translation", "--cpu")
    common += ("--path", model, "--beam", "1", "--max-len-b", "10")
    generated = fairseq("generate", *common, "--batch-size", "60").stdout
    assert len(hypotheses_and_scores(generated)) == 60
    text = "".join(f"{k}\n" for k in (toy_data.parent / "test.src").read_text().splitlines()[:2])
    new = fairseq("interactive", *common, "--tree-provider", "chain", input=text).stdout
    assert len(hypotheses_and_scores(new)) == 2
    program = [sys.executable, "-m", "fairseq_posattn.cli.examples", toy_data, "--path", model]
    program += ["--sentences", 0, "--cpu", "--out", tmp_path / "out.json"]
    run(*program, "--user-dir", folder, "--task", "structured_translation")
    assert json.loads((tmp_path / "out.json").read_text())[0]["attention"]["heads"] == 4
    alone = run(*program, check=False)
    assert alone.returncode == 1
    (line,) = [line for line in alone.stdout.splitlines() if line.startswith("error: ")]
    assert line.endswith("pass the folder that registers it as --user-dir")


def test_a_mistake_in_the_folder_ends_in_one_line(toy_data, tmp_path):
    folder = own_classes.make_folder(tmp_path)
    code = own_classes.code().replace('    name = "wave"\n', "")
    (folder / "__init__.py").write_text(code)
    line = code[: code.index("@positions.register")].count("\n") + 1
    own = ("--user-dir", folder)
    result = fairseq("train", *training_options(toy_data, tmp_path / "run", *own), check=False)
    assert result.returncode == 1 and "Traceback" not in result.stdout
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"error: Wave ({folder / '__init__.py'}:{line}) has no name")
