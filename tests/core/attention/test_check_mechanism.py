"""posattn check-mechanism: what it says about right mechanisms, wrong ones, and its input."""

import re
import sys

import pytest
import torch
from torch import nn

from fairseq_posattn.core.attention import MECHANISMS, ScoreBias, WeightChange
from fairseq_posattn.testing import CONTRACT, ContractError, check
from fairseq_posattn.testing import check_mechanism as check_specification
from support import own_classes
from support.commands import ROOT, run
from support.in_process import Ended, posattn

OWN = ROOT / "tests/own_mechanisms"


@pytest.fixture(autouse=True)
def forgotten():
    """Forget the mechanisms and modules that a test brings in."""
    with own_classes.restored():
        yield


def command(*arguments) -> Ended:
    ended = posattn("check_mechanism", "-v", *arguments)
    assert "Traceback" not in ended.err
    return ended._replace(err=ended.err.rstrip("\n"))


def failed(ended: Ended) -> list[str]:
    return [line.strip() for line in ended.out.splitlines() if line.startswith("  FAILED")]


@pytest.mark.parametrize("name", ["alibi", "rope"])
def test_right_mechanisms_of_ones_own_pass(name, tmp_path, monkeypatch):
    """They are written outside of the package and checked far from the checkout."""
    monkeypatch.chdir(tmp_path)
    ended = command(OWN / f"{name}.py")
    assert (ended.code, failed(ended), ended.err) == (0, [], "")
    mechanism = MECHANISMS[f"my_{name}"]
    lines = ended.out.splitlines()
    assert len(lines) == len(mechanism.examples) * (1 + len(CONTRACT)) + 1
    passed = [line for line in lines if line.startswith("  ok ")]
    assert len(passed) >= len(mechanism.examples) * (len(CONTRACT) - 4)  # 2 of cross-attention


def test_an_example_is_checked_by_its_specification_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = command(OWN / "rope.py", "--specification", "my_rope(theta=4)")
    assert ended.code == 0
    assert ended.out.startswith("my_rope(theta=4): 20 checks passed")
    assert ended.out.count("It can be built") == 1


def test_mechanisms_of_the_package_can_be_checked_without_a_module():
    ended = command("--specification", "relative(max=2) + temperature")
    assert ended.code == 0 and ended.out.startswith("relative(max=2) + temperature: ")


HEAD = """
import torch
from torch import nn
from fairseq_posattn.attention import *

@register
"""


def biased(bias: str, attributes: str = "pass", parameters: str = "pass") -> str:
    """Return the code of a mechanism that adds this bias to the scores."""
    return f"""class Broken(ScoreBias):
    name = "broken"
    {attributes}
    def bias(self, q, ctx):
        return {bias}
    def make_parameters(self):
        {parameters}
"""


BROKEN = {  # the code, the promise that it breaks, and what the line says about it
    "the mean of the keys takes padding along": (
        biased("q.mean(dim=(2, 3), keepdim=True) * ctx.distances"),
        "Neither other sentences nor padding",
        r"with padding after it; look at Broken.bias \(mine.py:10\): it may read padding",
    ),
    "it counts columns": (
        biased("torch.arange(ctx.length).sqrt().expand(1, 1, ctx.queries, -1)"),
        "Neither other sentences nor padding",
        r"with padding before it; look at Broken.bias \(mine.py:10\): it may count columns",
    ),
    "a parameter has no effect": (
        biased(
            "self.used * ctx.distances + self.idle",
            parameters="self.used, self.idle = (nn.Parameter(torch.ones(1)) for _ in range(2))",
        ),
        "Every parameter has an effect",
        r"expected that mechanisms.broken.idle changes the output, .*look at Broken.bias",
    ),
    "a mask hides a piece from itself and does not say so": (
        """class Broken(ScoreMask):
    name = "broken"
    def allowed(self, q, ctx):
        return (ctx.distances != 0)[None, None]
""",
        "Explicit computation (with weights)",
        r"look at Broken.allowed \(mine.py:9\): .*keeps_self = False",
    ),
    "a fast way computes something else": (
        """class Broken(ScoreBias, FastPath):
    name = "broken"
    def bias(self, q, ctx):
        return -ctx.distances.abs()
    def fast_path(self, q, k, v, ctx, dropout):
        return attend(q, k, v, ctx)[0]
""",
        "Explicit computation (with weights)",
        r"look at Broken.fast_path \(mine.py:11\)",
    ),
    "the future changes what a decoder does": (
        biased("-ctx.distances.abs() / ctx.lengths[:, None, None, None]", "causal_safe = True"),
        "Incremental decoding gives",
        r"look at Broken.bias \(mine.py:10\): causal_safe = True promises",
    ),
    "it counts columns of two sentences": (
        biased(
            "-(torch.arange(ctx.queries)[:, None] - torch.arange(ctx.length)).abs()[None]",
            "cross_safe = True",
        ),
        "In cross-attention neither padding nor incremental",
        r"look at Broken.bias \(mine.py:10\): take positions from ctx.from_diagonal",
    ),
    "a decoder has no trees": (
        biased("ctx.tree.relations[:, None]", "causal_safe = needs_tree = True"),
        "Incremental decoding gives",
        "remove causal_safe",
    ),
    "weights are spread over padding": (
        """class Broken(WeightChange):
    name = "broken"
    neutral = ""
    def change_weights(self, weights, q, ctx):
        return weights + 0.1 * weights.flip(0)
""",
        "plain attention",
        r"see its `neutral` and `set_neutral`",
    ),
    "it does not say that it needs trees": (
        biased("ctx.tree.relations[:, None]"),
        "It reads trees if",
        "set needs_tree = True",
    ),
    "a parameter is never used": (
        biased("-ctx.distances.abs()", parameters="self.idle = nn.Parameter(torch.ones(1))"),
        "gradient",
        r"expected a finite gradient of mechanisms.broken.idle, found none; .*use it in a stage",
    ),
    "a gradient is not a number": (
        biased(
            "(0 * self.slope).sqrt() * ctx.distances",
            parameters="self.slope = nn.Parameter(torch.zeros(1))",
        ),
        "gradient",
        r"expected a finite gradient of mechanisms.broken.slope, found nan or infinity",
    ),
    "it does nothing": (
        biased("torch.zeros(1)"),
        "It changes the output",
        "list others in `examples`",
    ),
    "it forgets which heads it has": (
        biased("torch.arange(4)[None, :, None, None] * ctx.distances", "accepts_heads = True"),
        "With heads=",
        r"expected no error, found RuntimeError: .*; look at Broken.bias \(mine.py:10\)",
    ),
    "layers share what depends on an option": (
        """class Broken(ScoreBias):
    name = "broken"
    examples = ("slope=1", "slope=3")
    from dataclasses import make_dataclass
    Options = make_dataclass("O", [("slope", int, 1)], frozen=True)
    def bias(self, q, ctx):
        return ctx.cached("broken", lambda: -self.options.slope * ctx.distances.abs())
""",
        "Layers with different options",
        "include every option",
    ),
    "what is random is not in the checkpoint": (
        biased("-self.slope * ctx.distances.abs()", parameters="self.slope = float(torch.rand(1))"),
        "loads the parameters of another",
        r"look at Broken.make_parameters \(mine.py:12\): keep random values",
    ),
    "exponents of half precision overflow": (
        """class Broken(ScoreChange):
    name = "broken"
    def change_scores(self, scores, q, ctx):
        return (scores.to(torch.float16) * 10).exp().type_as(scores)
""",
        "finite",
        "look at Broken.change_scores",
    ),
    "its code has a mistake": (
        biased("ctx.distance"),
        "It can be built and run,",
        r"found AttributeError: .*no attribute 'distance'.*; look at mine.py:11",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_mechanism_fails_with_a_line_that_helps(fault, tmp_path, monkeypatch):
    code, promise, message = BROKEN[fault]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(HEAD + code)
    ended = command("mine.py")
    assert ended.code == 1
    count = sum(line.startswith("  ") for line in ended.out.splitlines())
    found = failed(ended)
    assert ended.err == (
        f"error: {len(found)} of {count} checks failed: see the lines marked FAILED"
    )
    assert all(re.search(r"mine\.py:\d", line) for line in found)
    lines = [line for line in found if promise in line.partition(": expected")[0]]
    assert lines, ended.out
    assert any(re.search(message, line) for line in lines), lines


def mine(attributes: str = "", name: str = "mine", head: str = HEAD) -> str:
    return f'{head}class Mine(ScoreBias):\n    name = "{name}"\n    {attributes}\n'


INPUTS = {  # what stands on the command line: its code, and what the error says
    "nosuch.py": (None, "error: nosuch.py: no such file or folder"),
    "bare": (None, "error: bare: the folder contains no __init__.py"),
    "notes.txt": ("words", "error: notes.txt: this is not a Python file"),
    "nothing.py": ("x = 1\n", "error: nothing.py: the module registers no new mechanism; add"),
    "lacks.py": (
        mine(head=HEAD.replace("@register", "")),
        "error: lacks.py: the module does not register Mine; add the decorator @register",
    ),
    "mistake.py": (
        "x = 1\ny = x / 0\n",
        "/mistake.py:2: the import failed with ZeroDivisionError: division by zero",
    ),
    "syntax.py": ("def def\n", "syntax.py:1: the import failed with SyntaxError: "),
    "taken.py": (mine(name="relative"), "/taken.py:6): the mechanism 'relative' is already"),
    "ends.py": (
        "import sys\nsys.exit(0)\n",
        "error: ends.py: the module calls sys.exit when it is imported",
    ),
    "letters.py": (mine('unseen = ("w")'), ": unseen = 'w' is not a tuple of strings; write"),
    "kinds.py": (
        mine('needs_labels = ("names",)'),
        "/kinds.py:6): needs_labels = ('names',) is not a tuple of label types; write",
    ),
    "treeless.py": (
        mine('needs_labels = ("tags",)'),
        "/treeless.py:6): needs_labels requires trees; add needs_tree = True",
    ),
    "untried.py": (mine("examples = ()"), "/untried.py:6): examples = () is empty"),
}


@pytest.mark.parametrize("argument", INPUTS)
def test_input_that_cannot_be_checked_ends_in_one_line(argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare").mkdir()
    code, error = INPUTS[argument]
    if code:
        (tmp_path / argument).write_text(code)
    ended = command(argument)
    assert (ended.code, ended.out) == (1, "")
    assert error in ended.err and "\n" not in ended.err


def test_a_specification_that_cannot_be_read_ends_before_any_check():
    ended = command("--specification", "relative(size=3)")
    assert (ended.code, ended.out) == (1, "")
    assert "'relative' has no option 'size'" in ended.err


def test_without_arguments_the_command_says_what_it_needs():
    ended = command()
    assert ended.code == 2 and "give a MODULE, or a --specification" in ended.err


@pytest.mark.parametrize("argument", ["my_folder", "module_of_mine"])
def test_a_folder_for_user_dir_or_a_module_by_its_name(argument, tmp_path, monkeypatch):
    """The mechanism lies in a module of the folder, whose __init__.py imports the plug-in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_folder").mkdir()
    package = "from fairseq_posattn import plugin\nfrom . import mechanism\n"
    (tmp_path / "my_folder/__init__.py").write_text(package)
    alibi = (OWN / "alibi.py").read_text().replace("my_alibi", argument)
    for path in ("my_folder/mechanism.py", "module_of_mine.py"):
        (tmp_path / path).write_text(alibi)
    assert command(argument).out.startswith(f"{argument}: ")


@pytest.mark.long(ci=True)
def test_a_folder_gets_the_real_plugin_where_fairseq_is_installed(tmp_path):
    """A process of its own, in which nothing has imported the plug-in before."""
    pytest.importorskip("fairseq")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("from fairseq_posattn import plugin\n")
    code = "from fairseq_posattn.testing.own_modules import imported_from as load\n"
    code += "import sys; print(load('mine').plugin.__file__, 'fairseq.tasks' in sys.modules)"
    started = run(sys.executable, "-c", code, cwd=tmp_path, fresh=True)
    printed = started.stdout.splitlines()[-1]
    assert printed == f"{ROOT / 'fairseq_posattn/plugin.py'} True"


def test_a_summary_stands_first_and_details_behind_an_option(tmp_path):
    right = posattn("check_mechanism", OWN / "alibi.py").out.splitlines()
    assert len(right) == 2 and re.fullmatch(
        r"my_alibi: \d+ checks passed, \d+ do not apply", right[0]
    )
    (tmp_path / "mine.py").write_text(HEAD + BROKEN["it does nothing"][0])
    wrong = posattn("check_mechanism", tmp_path / "mine.py").out.splitlines()
    assert re.search(r": \d+ of \d+ checks FAILED", wrong[0])
    assert wrong[1:] == [line for line in wrong if line.startswith("  FAILED")]
    assert all(re.search(r"\(mine.py:\d+\)", line) for line in wrong[1:])


# from Python


class Halving(WeightChange):
    """The weights of even distances are halved."""

    name = "halving"

    def change_weights(self, weights, q, ctx):
        return weights * (1 - 0.5 * (ctx.distances % 2 == 0))


class Idle(ScoreBias):
    """It does nothing."""

    name = "idle"

    def bias(self, q, ctx):
        return 0 * q[..., :1]


def test_a_class_is_checked_without_being_registered():
    check(Halving)
    check(Threshold)  # its initial values show that its parameter matters
    assert "halving" not in MECHANISMS


class Threshold(ScoreBias):
    """As FIRE (Li et al. 2024): its parameter has a meaning, and starts with a fitting value."""

    name = "threshold"
    start = 4.0

    def make_parameters(self):
        self.length = nn.Parameter(torch.tensor(self.start))

    def bias(self, q, ctx):
        return -ctx.distances.abs() / torch.clamp(self.length, min=2.0)


def test_a_fault_tells_with_which_values_it_was_found():
    with pytest.raises(ContractError) as raised:
        check(type("Idle", (Threshold,), {"name": "idle", "start": 1.0}))
    found = "expected that mechanisms.idle.length changes the output, found a gradient of zero"
    [line] = [line for line in str(raised.value).splitlines() if found in line]
    assert line.endswith("(with parameters from N(0, 0.5), with the initial ones of the class)")

    def bias(self, q, ctx):
        return -(self.length - 3).log() * ctx.distances.abs()

    with pytest.raises(ContractError) as raised:
        check(type("Logarithm", (Threshold,), {"name": "logarithm", "bias": bias, "start": 5.0}))
    for line in str(raised.value).splitlines():
        assert "(with parameters from N(0, 0.5), but not with the initial ones" in line


def test_a_class_that_breaks_the_contract_raises_with_all_its_faults():
    with pytest.raises(ContractError, match="idle: It changes the output") as raised:
        check(Idle)
    assert isinstance(raised.value, AssertionError)
    assert "test_check_mechanism.py:" in str(raised.value)
    assert "idle" not in MECHANISMS


def test_a_specification_is_checked_as_in_earlier_versions():
    check_specification("relative(max=2) + temperature")
    MECHANISMS["idle"] = Idle
    with pytest.raises(ContractError, match="idle: It changes the output"):
        check_specification("idle")
