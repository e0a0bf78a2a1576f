"""What a recipe may say, and how it is refused."""

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import pytest

from fairseq_posattn.core.attention import AttentionShape, AttentionSpecification
from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.experiment import TRIAL
from fairseq_posattn.experiments.recipe import CHECKOUT, arguments, read_recipe
from fairseq_posattn.experiments.recipe_options import Prepare, asked_recipe
from fairseq_posattn.experiments.runs import Run, RunRecord
from fairseq_posattn.experiments.sizes import size_for
from fairseq_posattn.experiments.translation import Translation, experiment_class
from support.experiments import in_process

GOOD = """
title = "Small"
source = "en"
target = "de"

[corpus]
valid = "dev"
tests = ["test"]

[sizes.base]
arch = "_tiny"
updates = 10
batch_tokens = 100

[[models]]
model = "sequence"
size = "base"
"""


def recipe(tmp_path, text=GOOD):
    (tmp_path / "recipe.toml").write_text(text)
    return read_recipe(str(tmp_path))


def test_options_become_a_command_line():
    options = {"share": True, "not": False, "lr": 5e-4, "adam-betas": "(0.9, 0.98)", "test": [1, 2]}
    assert arguments(options) == [
        *("--share", "--lr", "0.0005", "--adam-betas", "(0.9, 0.98)", "--test", "1", "2")
    ]


def test_rows_and_presets(tmp_path):
    found = recipe(
        tmp_path, GOOD + '\n[[models]]\nname = "x"\nmodel = "structural"\nsize = "base"\n'
    )
    assert found.name == tmp_path.name
    assert found.row("x", None).model == "structural"
    assert found.row("structural", "base").system == "structural.base"  # a preset without a row
    assert [row.title for row in found.rows("base")] == ["sequence", "x"]
    with pytest.raises(InputError, match="unknown model 'y'; choose among sequence x "):
        found.row("y", None)
    with pytest.raises(InputError, match="the recipe has no size 'big'; choose among base"):
        found.size("big")


@pytest.mark.parametrize("name", ["demo", "small", "base", "big"])
def test_a_size_of_all_recipes(tmp_path, name):
    """A recipe takes it by its name; what the recipe says goes before it."""
    row = f'[[models]]\nmodel = "sequence"\nsize = "{name}"\n'
    begin = GOOD.partition("[sizes.base]")[0]
    shared = size_for(name, 30_000)
    taken = recipe(tmp_path, f"{begin}[sizes.{name}]\n{row}").content.sizes[name]
    assert taken == shared and taken.training["lr"] <= 4e-3
    own = f"[sizes.{name}]\nupdates = 7\n[sizes.{name}.training]\ndropout = 0.2\n"
    found = recipe(tmp_path, f"{begin}{own}{row}").content.sizes[name]
    training = {**shared.training, "dropout": 0.2}
    assert found == replace(shared, updates=7, training=training)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Small"', "", "title is missing; correct the recipe"),
        ('title = "Small"', 'titel = "x"', '"titel" is not a known key'),
        ("updates = 10", 'updates = "10"', 'sizes.base.updates is "10", expected a whole number'),
        ("updates = 10", "updates = 0", "sizes.base.updates is 0, expected at least 1"),
        ("batch_tokens = 100", "", "sizes.base.batch_tokens is missing"),
        ('[sizes.base]\narch = "_tiny"', "[sizes.mine]", "sizes.mine.arch is missing"),
        ('size = "base"', 'size = "big"', "the size 'big'; recipe.toml defines: base"),
        (
            'model = "sequence"',
            'model = "sequence"\ntrees = "straight"',
            "not a kind of control tree",
        ),
        (
            'model = "sequence"',
            'model = "sequence"\ntrees = "parsed"',
            'has trees = "parsed", which requires corpus.prepare.parser = "conllu"',
        ),
        ('title = "Small"', 'base = "none"', "base is 'none', which contains no recipe.toml"),
        (
            'size = "base"',
            'size = "base"\n[[models]]\nmodel = "sequence"\nsize = "base"',
            "two mod",
        ),
        ('model = "sequence"', 'name = "a"', "source requires models with a preset"),
        ('target = "de"', "", "target is missing; correct the recipe"),
        ('size = "base"', 'size = "base"\nlabel = "a"', "label requires models without a preset"),
        ('size = "base"', "", "the size ''; recipe.toml defines: base"),
        ('size = "base"', 'size = "base"\n[[models]]\nname = "a"', "entry 'a' has no model"),
        ('size = "base"', 'size = "base"\npublished.test = "x"', "expected numbers per test set"),
        ('model = "sequence"', 'model = "straight"', "unknown preset 'straight'; correct"),
        (
            'model = "sequence"\nsize = "base"',
            'name = "a"\nlike = "a"',
            "a model has like = 'a', but no other model has this name; correct",
        ),
        ('source = "en"', "source = en", r"the file is not valid TOML \(.*line 3"),
        ('title = "Small"', "title = 2024-05-01", 'title is "2024-05-01", expected text; correct'),
        ("updates = 10", "updates = 07:32:00", 'updates is "07:32:00", expected a whole number'),
        (
            'size = "base"',
            'size = "base"\ntraining.lr = 2024-05-01',
            "training.lr is .* expected t",
        ),
        (
            "[sizes.base]",
            '[evaluation]\nmain = "TER"\n[sizes.base]',
            "expected BLEU or chrF2",
        ),
        ("[corpus]", "evaluation.subsets.dev = []\n[corpus]", "expected one of the test s"),
        (
            "[corpus]",
            'evaluation.subsets.test = ["../a"]\n[corpus]',
            "subsets.test is .'../a'., expected a plain name",
        ),
        ("[corpus]", 'evaluation.subsets.test = "a"\n[corpus]', "expected a list"),
        ("[corpus]", "[corpus]\nprepare.symbols = 0", "prepare.symbols is 0, expected at least 1"),
        ("[corpus]", "[corpus]\nprepare.symbol = 9", "symbol is not an option; see posattn"),
        (
            "[corpus]",
            '[corpus]\nprepare.parser = "x"',
            "expected stanza or local or conllu or none; corr",
        ),
        ("[corpus]", 'evaluation.score.exact = "x"\n[corpus]', "expected true or false"),
        ("[corpus]", 'evaluation.published.x.y = "z"\n[corpus]', "expected a number"),
    ],
)
def test_a_recipe_with_a_fault(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=f"{tmp_path}/recipe.toml: .*{message}"):
        recipe(tmp_path, GOOD.replace(old, new))


def test_no_recipe(tmp_path):
    with pytest.raises(
        InputError, match=r"no folder of this name contains a recipe.toml; .*wmt14_en_de"
    ):
        read_recipe(str(tmp_path))


def test_all_recipes_are_read():
    for path in CHECKOUT.glob("recipes/*/recipe.toml"):
        content, has_code = read_recipe(path.parent.name).content, (path.parent / TRIAL).exists()
        assert content.has_presets == (experiment_class(path) is Translation) == (not has_code)
        if has_code:
            continue
        assert all(row.published.keys() <= set(content.corpus.tests) for row in content.models)
        assert content.corpus.sentences.keys() <= set(content.corpus.names)
        for row in content.models:
            for side, layers in (("encoder", 3), ("decoder", 2)):
                chosen = row.training.get(f"{side}-attention", "")
                found = AttentionSpecification(chosen)
                if "brackets" not in chosen:  # that checks the target dictionary
                    found.check(layers, AttentionShape(4, 32))
                if side == "decoder":
                    found.check_causal()


@pytest.mark.parametrize("recipe", ["multi30k_en_de", "toy", "lookup", "lm", "ud_tagging"])
def test_commands_are_shown_without_the_packages(recipe, tmp_path):
    """A dry run needs no set-up, so nothing but the standard library may be imported."""
    missing = "import sys, runpy; sys.modules.update(dict.fromkeys(%r)); "
    missing %= ["numpy", "torch", "fairseq", "fairseq_cli", "sacrebleu", "matplotlib", "stanza"]
    step = ["table", recipe, "--dry-run", "--cpu", "--work", str(tmp_path / "work")]
    start = "sys.argv[1:] = %r; runpy.run_module('fairseq_posattn.cli.recipe', run_name='__main__')"
    command = [sys.executable, "-c", missing + start % step]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "fairseq_cli.train" in found.stdout and not (tmp_path / "work").exists()


def test_data_are_made_for_some_models_only(tmp_path):
    row = '\n[[models]]\nname = "{0}"\nmodel = "structural"\nsize = "base"\ntrees = "{0}"\n'
    (tmp_path / "recipe.toml").write_text(GOOD + row.format("chain") + row.format("flat"))

    def prepared(*models) -> list[str]:
        _, out, err = in_process("prepare", tmp_path, "--from", tmp_path, "--dry-run", *models)
        return re.findall(rf"--out {tmp_path}/work/(\S+)", out) or [err]

    assert prepared() == ["data", "data.chain", "data.flat"]
    assert prepared("--models", "flat") == ["data", "data.flat"]
    assert prepared("--models", "sequence") == ["data"]
    [refused] = prepared("--models", "x")
    assert refused == "error: unknown model 'x'; choose among sequence chain flat\n"


@pytest.mark.long(ci=True)
def test_a_long_chain_of_rows_that_are_like_another(tmp_path):
    """It costs no depth of calls, and no row is looked at again and again."""
    rows = '[[models]]\nmodel = "sequence"\nname = "m{0}"\nlike = "m{1}"\ntraining.{2} = {0}\n'
    chain = [rows.format(k, k + 1, ("lr", "dropout")[k % 2]) for k in range(1100)]
    sizes = [
        f'[sizes.s{k}]\narch = "_tiny"\nupdates = 1\nbatch_tokens = 9\n'
        f'[[models]]\nname = "same"\nlike = "same"\nsize = "s{k}"\n'
        for k in range(100)
    ]
    ends = (
        '[[models]]\nname = "m1100"\nlike = "sequence"\n',
        '[[models]]\nname = "same"\nlike = "m7"',
    )
    found = recipe(tmp_path, GOOD + "".join([*chain, ends[0], *sizes, ends[1]]))
    assert found.content.models[1].training == {"lr": 0, "dropout": 1}
    assert found.content.models[2].training == {"lr": 2, "dropout": 1}
    assert [row.training for row in found.content.models[-101:]] == [{"lr": 8, "dropout": 7}] * 101


def test_a_row_that_is_like_another(tmp_path):
    alike = '[[models]]\nname = "sequence_chain"\nlike = "sequence"\ntrees = "chain"\n'
    slow = '[[models]]\nname = "slow"\nlike = "sequence_chain"\ntraining = { lr = 1e-5 }\n'
    options = "published = { test = 27.0 }\ntraining = { dropout = 0.2, lr = 1e-3 }\n"
    first, second, third = recipe(tmp_path, GOOD + options + alike + slow).content.models
    assert second == replace(first, name="sequence_chain", trees="chain", published={})
    assert third == replace(second, name="slow", training={"dropout": 0.2, "lr": 1e-5})
    (tmp_path / "other").mkdir()
    of_base = 'base = ".."\n' + alike
    assert recipe(tmp_path / "other", of_base).content.models == [second]
    flipped = '[[models]]\nname = "flipped"\nlike = "sequence"\ntested = "own-flip0.1"\n'
    found = recipe(tmp_path, GOOD + options + alike + flipped)
    assert found.content.models[2] == replace(
        first, name="flipped", tested="own-flip0.1", published={}
    )
    assert found.controls == ["own", "chain", "own-flip0.1"]
    with pytest.raises(InputError, match="own-flop"):
        recipe(tmp_path, GOOD + 'tested = "own-flop"\n')


def test_a_sweep_names_each_point(tmp_path):
    sweep = '[sweep]\nbaseline = "sequence"\n'
    series = '[[sweep.series]]\nlabel = "{}"\nmodel = "csan_1d"\noption = "encoder-attention"\n'
    series += 'template = "window(size={{}})"\nvalues = [3, 5]\n'
    found = recipe(tmp_path, GOOD + sweep + series.format("a"))
    [one] = found.content.sweep.series
    assert one.row(3, "base").training == {"encoder-attention": "window(size=3)"}
    with pytest.raises(InputError, match=r"the sweep contains 'csan_1d.window_size_3' twice"):
        recipe(tmp_path, GOOD + sweep + series.format("a") + series.format("b"))


def test_the_row_of_a_model_is_that_of_the_table_at_any_size(tmp_path):
    """A named model keeps its trees and options where the size has no row of its own."""
    small = '\n[sizes.small]\narch = "_tiny"\nupdates = 5\nbatch_tokens = 50\n'
    named = (
        '\n[[models]]\nname = "sequence_slow"\nmodel = "sequence"\nsize = "base"\ntrees = "chain"\n'
        "training = { lr = 1e-5 }\n"
    )
    found = recipe(tmp_path, GOOD + "published = { test = 27.0 }\n" + named + small)
    assert found.content.sizes["base"].training == {}  # a size with an architecture is its own
    for size in ("base", "small"):
        for row in found.rows(size):
            assert found.row(row.title, size) == row
            assert row.published == ({"test": 27.0} if row.system == "sequence.base" else {})
    assert found.row("sequence_slow", "small").trees == "chain"
    assert found.row("relative", "small").training == {}  # any preset may be trained


def shown(folder, *words):
    """Return the options of the training that a command would start."""
    code, out, _ = in_process("train", folder, "sequence", "--cpu", "--dry-run", *words)
    assert code == 0
    [line] = [one for one in out.splitlines() if "fairseq_cli.train" in one]
    return shlex.split(line)


def test_a_learning_rate_falls_over_all_updates(tmp_path):
    falling = "training = { lr-scheduler = 'polynomial_decay', total-num-update = 10 }\n"
    recipe(tmp_path, GOOD + falling)
    for given, total in (([], "10"), (["--updates", "30"], "30")):
        words = shown(tmp_path, *given)
        assert words[words.index("--total-num-update") + 1] == total
        assert words[words.index("--max-update") + 1] == total
        assert "--warmup-init-lr" not in words


def test_a_warm_up_is_that_of_the_recipe(tmp_path):
    cosine = "training = { lr-scheduler = 'cosine', warmup-init-lr = 1e-5 }"
    recipe(tmp_path, cosine + GOOD)
    words = shown(tmp_path)
    assert words[words.index("--warmup-init-lr") + 1] == "1e-05"


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("updates", [10, 20])
def test_runs_of_several_seeds_are_trained_alike(updates, tmp_path):
    """Or their mean would be that of different models."""
    recipe(tmp_path)
    for seed, steps in ((1, 10), (2, updates)):
        options = ["--lr", "0.1", "--seed", str(seed)]
        record = RunRecord("sequence", "base", seed, steps, "own", options, {})
        run = Run(tmp_path / "work/runs", record)
        run.record_start()
        run.finish()
    words = ["evaluate", tmp_path, "sequence", "--size", "base", "--seeds", "1-2", "--cpu"]
    code, _, err = in_process(*words)
    message = "sequence.base: the runs with seeds 1 and 2 were trained differently (--updates was "
    assert code == 1 and (message in err) == (updates == 20)


@pytest.mark.parametrize("joined", [True, False])
def test_one_dictionary_of_pieces_is_shared(joined, toy_data, tmp_path):
    """Dictionaries of labels are no dictionaries of pieces."""
    data = shutil.copytree(toy_data, tmp_path / "data")
    words = (data / "dict.tgt.txt").read_text()
    (data / "dict.src.txt").write_text(words if joined else f"{words}x 1\n")
    for kind in ("relations", "tags"):
        (data / f"dict.src.{kind}.txt").write_text("nsubj 3\n")
    code, out, _ = in_process("options", "sequence", "demo", data)
    assert code == 0 and ("--share-all-embeddings" in out) == joined


def test_the_model_may_stand_after_the_options(tmp_path):
    words = ["evaluate", "mine", "--size", "base", "--cpu", "sequence"]
    assert asked_recipe(words, "").model == "sequence"
    with pytest.raises(SystemExit):
        asked_recipe([*words, "another"], "")
    assert asked_recipe(["train", "mine", "sequence", "--seeds", "2-2"], "").all_seeds == [2]


@pytest.mark.parametrize(
    ("target", "message"), [("klingon", " is not a known language"), ("ja", ": ")]
)
def test_a_language_that_cannot_be_scored_is_told_at_once(tmp_path, target, message):
    pytest.importorskip("sacrebleu")
    recipe(tmp_path, GOOD.replace('target = "de"', f'target = "{target}"'))
    experiment = Translation(Prepare(recipe=str(tmp_path)))
    missing = {"MeCab": None, "sacrebleu.tokenizers.tokenizer_ja_mecab": None}
    with (
        mock.patch.dict("sys.modules", missing),
        pytest.raises(InputError, match=f"--target-lang {target}{message}"),
    ):
        experiment.prepare(tmp_path, False, [])
