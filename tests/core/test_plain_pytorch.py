"""docs/python.md runs without fairseq.

Where fairseq is absent, only torch, numpy and what these two need can be imported.
"""

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairseq_posattn.attention import AttentionContext, SourceTree, build_self_attention
from fairseq_posattn.errors import InputError
from support.commands import ROOT, run

DOCUMENT = ROOT / "docs/python.md"
SNIPPETS = "\n".join(re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S))
SHAPES = "torch.Size([4, 2, 64]) torch.Size([2, 4, 4, 4])"


def with_requirements(*names: str) -> set[str]:
    """Return packages with all that they need and that is installed, by their names."""
    found, to_do = set(), list(names)
    while to_do:
        name = to_do.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            to_do += [r.name for r in map(Requirement, requires) if applies(r)]
    return found


def applies(requirement: Requirement) -> bool:
    """Tell whether a package needs another one here, without any of its extras."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def nothing_but_torch(code: str, *arguments, cwd: Path) -> str:
    """Return what Python prints that can import torch, numpy, what these need, and this package."""
    needed = {*map(canonicalize_name, with_requirements("torch", "numpy")), "fairseq-posattn"}
    absent = [
        module
        for module, names in metadata.packages_distributions().items()
        if not needed & {*map(canonicalize_name, names)}
    ]
    assert {"fairseq", "omegaconf", "yaml", "sacrebleu", "stanza", "pytest"} <= {*absent}
    start = f"import sys\nsys.modules.update(dict.fromkeys({absent}))\n"  # None: cannot be imported
    environment = {"PYTHONPATH": str(ROOT)}
    return run(
        sys.executable, "-c", start + code, *arguments, cwd=cwd, env=environment, fresh=True
    ).stdout


@pytest.mark.long
def test_with_torch_and_numpy_only(tmp_path):
    assert SHAPES in nothing_but_torch(SNIPPETS, cwd=tmp_path)


OWN = """from fairseq_posattn import plugin
from . import mechanism
"""
CHECK = """
from fairseq_posattn.cli.main import function_of
function_of("check-mechanism")()
"""


@pytest.mark.long
def test_a_folder_for_user_dir_is_checked_without_fairseq(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text(OWN)
    shutil.copy(ROOT / "tests/own_mechanisms/rope.py", tmp_path / "mine/mechanism.py")
    printed = nothing_but_torch(CHECK, "mine", cwd=tmp_path)
    assert printed.startswith("my_rope: ") and "FAILED" not in printed


def test_the_document_shows_what_it_says(capsys):
    """The snippets run here, too; a tree of subwords and a decoder are mentioned beside them."""
    names: dict = {}
    exec(SNIPPETS, names)
    assert SHAPES in capsys.readouterr().out
    padding = names["padding"]
    pieces = [[1, 1, 1, 1], [1, 1]]
    tree = SourceTree.from_parents([[2, 0, 4, 2], [0, 1]], padding, pieces)
    assert torch.equal(tree.words, names["tree"].words)
    causal = AttentionContext.from_padding(padding, tree, causal=True)
    _, weights = names["attention"](names["x"], causal, need_weights=True)
    assert (weights.triu(1) == 0).all() and (names["weights"].triu(1) != 0).any()
    assert (names["weights"][1, :, :, 2:] == 0).all()


def test_trees_of_lists_are_those_of_the_equations():
    """Depths and relations of four words in five pieces are as Wang et al. 2019 define them."""
    padding = torch.tensor([[False] * 5, [True] * 3 + [False] * 2])
    tree = SourceTree.from_parents([[2, 0, 4, 2], [0, 1]], padding, [[1, 2, 1, 1], [1, 1]])
    assert tree.words.tolist() == [[0, 1, 1, 2, 3], [-1, -1, -1, 0, 1]]
    assert tree.depths.tolist() == [[1, 0, 0, 2, 1], [0, 0, 0, 0, 1]]
    assert tree.parent_words.tolist() == [[1, -1, -1, 3, 1], [-1, -1, -1, -1, 0]]
    assert tree.relations[0, 4].tolist() == [2, 1, 1, -1, 0]
    assert tree.relations[0, 3].tolist() == [3, 2, 2, 0, 1]


@pytest.mark.parametrize(
    ("parents", "pieces", "message"),
    [
        ([[0]], None, "the batch has 2 sentences, but there are 1 trees and 1 lists of pieces"),
        (
            [[0, 1, 1], [0]],
            None,
            "sentence 1 of the batch has 2 pieces .not counting padding., but",
        ),
        ([[0, 1], [0]], [[1, 1], [2]], "sentence 0 of the batch has 3 pieces"),
        ([[0, 1, 1], [0, 0]], None, r"sentence 1 of the batch: \[0, 0\] is not a tree"),
        ([[0, 3, 2], [0, 1]], None, r"sentence 0 of the batch: \[0, 3, 2\] is not a tree"),
        ([[0, 1, 7], [0, 1]], None, r"sentence 0 of the batch: \[0, 1, 7\] is not a tree"),
    ],
)
def test_trees_that_do_not_fit_are_refused(parents, pieces, message):
    padding = torch.tensor([[False] * 3, [False] * 2 + [True]])
    with pytest.raises(InputError, match=message):
        SourceTree.from_parents(parents, padding, pieces)


def test_a_specification_that_cannot_work_is_refused():
    with pytest.raises(InputError, match="more than the 4 attention heads of the model"):
        build_self_attention("window(across=9)", 64, 4)
    with pytest.raises(InputError, match="the model has one layer, 0"):
        build_self_attention("window@0-2", 64, 4)
    with pytest.raises(InputError, match="do not divide"):
        build_self_attention("", 65, 4)
    with pytest.raises(InputError, match="heads=0 is too small; use at least one"):
        build_self_attention("", 64, 0)
    with pytest.raises(InputError, match=r"layer=3 is out of range; it must .* less than layers=1"):
        build_self_attention("window", 64, 4, layer=3)
    built = build_self_attention("window@0-2", 64, 4, layer=3, layers=6, dropout=0.1)
    assert not built.mechanisms and built.dropout_module.p == 0.1
