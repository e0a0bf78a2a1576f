"""What a recipe.toml of a stranger may choose, and what it may not."""

import pytest
from test_recipe import GOOD

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import request_of
from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.scoring.request import ScoreRequest
from support.experiments import in_process
from support.files import write


def refused(folder, text: str) -> str:
    path = write(folder / "recipe.toml", text)
    with pytest.raises(InputError) as error:
        read_recipe(str(folder))
    message = str(error.value)
    assert message.startswith(f"{path}: ") and message.endswith("; correct the recipe")
    return message


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('tests = ["test"]', 'tests = ["../../home/"]', "corpus.tests"),
        ('tests = ["test"]', 'tests = ["-o"]', "corpus.tests"),
        ('valid = "dev"', 'valid = ".."', "corpus.valid"),
        ('valid = "dev"', 'valid = "dev"\ntrain = "/tmp/x"', "corpus.train"),
        ('source = "en"', 'source = "en/../x"', "source"),
        ('target = "de"', 'target = "a..b"', "target"),
        ('valid = "dev"', 'valid = "dev"\ntreebanks.dev = "../{}.conllu"', "treebanks lists"),
        ("[sizes.base]", '[sizes."../x"]', "sizes"),
        ('model = "sequence"', 'model = "sequence"\nname = ".x"', "models[0].name"),
        (
            'source = "en"',
            'source = "en"\nsweep = { baseline = "/x", series = [] }',
            "sweep.baseline",
        ),
    ],
)
def test_names_lead_nowhere_else(tmp_path, old, new, key):
    assert old in GOOD
    message = refused(tmp_path, GOOD.replace(old, new))
    assert f"{key} " in message and "expected a plain name: letters, digits" in message


@pytest.mark.parametrize(
    ("table", "option"),
    [
        *(
            ("corpus.prepare", o)
            for o in ("out", "work", "wor", "valid", "control", "sbatch", "align-by")
        ),
        *(("models.training", o) for o in ("user-dir", "user_dir", "save-dir", "arch")),
        *(("training", o) for o in ("tensorboard-logdir", "checkpoint-suffix", "task")),
        *(("sizes.base.training", o) for o in ("log-file", "wandb-project", "arch", "task")),
        *(("evaluation.score", o) for o in ("json", "js", "train-counts")),
        ("training", '"lr=1 --user-dir"'),
    ],
)
def test_options_that_write_elsewhere_or_run_code(tmp_path, table, option):
    message = refused(tmp_path, f'{GOOD}\n[{table}]\n{option} = "x"\n')
    key = table.rpartition(".")[2]
    refusals = (f"{key}.{option} is not allowed in a recipe", "this is not the name of an option")
    assert refusals["=" in option] in message


def test_an_option_that_begins_like_another(tmp_path):
    """align is no abbreviation of align-by, which is not allowed."""
    (tmp_path / "recipe.toml").write_text(f'{GOOD}\n[corpus.prepare]\nalign = "eflomal"\n')
    assert read_recipe(str(tmp_path)).content.corpus.prepare == {"align": "eflomal"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", "['1', '--user-dir', 'x']"),
        ("lr", "' --user-dir=x'"),
        ("adam-betas", '\'__import__("os").system("x")\''),
        ("encoder-glu", "'eval_bool(\"1\")'"),  # fairseq's own, which evaluates a text in the text
        ("adam-betas", "'9**9**9'"),
        ("label-smoothing", "' [open][0](1)'"),
        ("adam-betas", "'(0.9, [1 for a.b in [c] if a[0]][0])'"),
        ("adam-betas", "'[a := 1]'"),
        ("lamb-betas", "'lambda: 0'"),
        ("lr", "['0.1', 'a@b']"),
        ("adafactor-eps", "\"f'{a}'\""),
        ("adafactor-eps", "'[0]*999999999999'"),
        ("adafactor-eps", f"'{'-' * 9000}1'"),
        ("adafactor-eps", f"'{'1' * 20_000}'"),
        ("adam-betas", '"""\n\\u000c [𝔬pen][\\u005c\n0] """'),
    ],
    ids=lambda value: value[:30],
)
def test_values_that_are_options_or_code(tmp_path, name, value):
    """fairseq evaluates the text of some options as Python."""
    message = refused(tmp_path, f"{GOOD}\n[training]\n{name} = {value}\n")
    assert f"toml: training.{name} is '" in message and "only plain values are allowed" in message


@pytest.mark.parametrize(
    "value",
    ["0.9, 0.98", "(0.9, 0.98)", "-0.5", "[1, 2]", "{'a': [1e-9]}", "True", "None", "a/b.c-d/e"]
    + ["/x/My models (old)/a@b.pt", "label_smoothed_cross_entropy", "1/3", "a:b", "ein Wort", ""]
    + ["größe_1", "0-2|5", "s3://a/b"],
)
def test_plain_values_pass(tmp_path, value):
    options = 'encoder-attention = "window(size=11)@0-2"\nencoder-positions = "tree_depth(x=a.b)"'
    text = GOOD.replace('["test"]', '["test_2016+de", "größe-1.x"]')
    write(tmp_path / "recipe.toml", f'{text}\n[training]\nlr = ["{value}", "1"]\n{options}\n')
    assert read_recipe(str(tmp_path)).content.training["lr"] == [value, "1"]


@pytest.mark.parametrize("file", ["corpus.py", "trial.py"])
def test_a_recipe_with_code_says_so_at_its_first_start(file, tmp_path):
    """It says so before the code runs."""
    text = GOOD if file == "corpus.py" else 'title = "x"\nmodels = [{ name = "a" }]\n'
    write(tmp_path / "recipe.toml", text)
    base = "from fairseq_posattn.experiments.experiment import Experiment as Recipe\n"
    write(tmp_path / file, "import sys; print('it runs', file=sys.stderr)\n" + base)
    said = [in_process("prepare", tmp_path, "--from", "/no")[2] for _ in range(2)]
    line = f"{tmp_path / file}: the recipe runs this code with all of your permissions\n"
    assert said[0].startswith(line) and line not in said[1]
    assert ("it runs" in said[0]) == (file == "trial.py")  # the corpus is not there


def test_options_that_corpus_py_returns():
    request = request_of(ScoreRequest, {"hypotheses": ["a"], "references": "b"})
    assert request.references == ["b"]
    with pytest.raises(InputError, match="posattn score has no option --reference; correct it in"):
        request_of(ScoreRequest, {"hypotheses": ["a"], "reference": "b"})


def test_options_on_the_command_line_complete_those_of_the_recipe(tmp_path):
    text = GOOD.replace('valid = "dev"', 'valid = "dev"\nprepare = { parser = "none" }')
    write(tmp_path / "recipe.toml", text)
    words = ("prepare", tmp_path, "--from", tmp_path, "--any-size", "--dry-run")
    code, printed, _ = in_process(*words, "--", "--tokenize", "spaces")
    assert code == 0 and printed.rstrip().endswith(" --parser none --tokenize spaces"), printed
