"""torch.compile takes every mechanism, and whole encoders, in one graph for all lengths."""

import pytest
import torch
from torch import _dynamo as dynamo

from fairseq_posattn.core.attention import MECHANISMS, AttentionContext, SourceTree
from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs, random_tree
from fairseq_posattn.testing.layer import attention
from support.in_process import batch, build

pytestmark = pytest.mark.long
if not hasattr(torch.compiler, "is_compiling"):
    pytest.skip("this torch does not tell whether it compiles", allow_module_level=True)
BATCHES = (TREES[:3], [random_tree(12, 7), random_tree(5, 2)])
CASES = [f"{name}({m.examples[0]})@0" for name, m in MECHANISMS.items()]


@pytest.fixture(autouse=True)
def fresh():
    """Each test compiles anew."""
    dynamo.reset()


def compiled(function):
    """A function in one graph, or an error; the graph serves other sizes, too."""
    return torch.compile(function, fullgraph=True, dynamic=True, backend="eager")


@pytest.mark.parametrize("specification", CASES)
def test_mechanisms(specification):
    module = attention(specification).float()

    def output(x, padding, words, parents, labels, brackets):
        tree = SourceTree(words, parents, labels=labels)
        ctx = AttentionContext.from_padding(padding, tree)
        ctx.brackets = brackets
        return module(x, ctx)[0]

    fast = compiled(output)
    # The steps that go up a tree double their reach, so their number grows with the logarithm of
    # the length, and each number has a graph of its own.
    needs_tree = MECHANISMS[specification.partition("(")[0]].needs_tree
    for trees in BATCHES:
        own = context(trees)
        fields = (~own.real, own.tree.words, own.tree.parents, own.tree.labels, own.brackets)
        x = inputs(trees, own, dtype=torch.float32).requires_grad_()
        gradients = []
        for function in (fast, output):
            with dynamo.config.patch(error_on_recompile=not needs_tree):
                found = function(x, *fields)
            gradients.append((found, *torch.autograd.grad(found.square().sum(), x)))
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("beside", ["", "relative + alibi", "tree_distance"])
def test_windows_of_long_inputs(beside):
    """They are computed in bands."""
    module = attention(" + ".join(filter(None, ("window(size=5)", beside))))

    def output(x, padding, words, parents):
        return module(x, AttentionContext.from_padding(padding, SourceTree(words, parents)))[0]

    fast = compiled(output)
    for length in (150, 171, 203):  # as many words need as many steps up a tree
        trees = [random_tree(length, 1), random_tree(length - 20, 2)]
        own = context(trees, width=200)
        x, real = inputs(trees, own), own.real.T
        fields = (~own.real, own.tree.words, own.tree.parents)
        torch.testing.assert_close(fast(x, *fields)[real], output(x, *fields)[real])


def test_blocks_whose_size_depends_on_the_longest_sentence_cannot_be_compiled():
    module, own = attention("block(size=0)@0").float(), context(TREES[:3])
    x = inputs(TREES[:3], own, dtype=torch.float32)
    with pytest.raises(dynamo.exc.TorchDynamoException):
        compiled(lambda x, p: module(x, AttentionContext.from_padding(p))[0])(x, ~own.real)


PRESETS = ("sequence", "structural", "csan_1d", "csan_2d", "relative", "rel_pos", "direct_relative")


@pytest.mark.parametrize("preset", PRESETS)
def test_encoders(preset, toy_data):
    task, model, _ = build(toy_data, "--arch", f"posattn_{preset}_tiny")
    model.eval()

    def encoded(tokens, tree):
        return model.encoder(tokens, source_tree=tree)["encoder_out"][0]

    fast = compiled(encoded)
    for subset in ("valid", "test"):
        fields = batch(task, subset)["net_input"]
        arguments = fields["src_tokens"], fields.get("source_tree")
        torch.testing.assert_close(fast(*arguments), encoded(*arguments))


class Encoder(torch.nn.Module):
    """This is what is exported of a model: its encoder, from pieces and trees to vectors."""

    def __init__(self, model):
        super().__init__()
        self.encoder = model.encoder

    def forward(self, tokens, tree=None):
        return self.encoder(tokens, source_tree=tree)["encoder_out"][0]


@pytest.mark.parametrize("preset", ["sequence", "structural", "csan_2d", "relative"])
def test_exported_encoders_serve_all_sizes(preset, toy_data):
    if not hasattr(torch.compiler, "is_exporting"):
        pytest.skip("this torch does not tell whether it exports")
    task, model, _ = build(toy_data, "--arch", f"posattn_{preset}_tiny")
    module = Encoder(model.eval())
    samples = [batch(task, subset)["net_input"] for subset in ("valid", "test", "train")]
    given = [tuple(s[name] for name in ("src_tokens", "source_tree") if name in s) for s in samples]
    sentences, pieces, words = (
        torch.export.Dim(name, min=2, max=most)
        for name, most in (("sentences", 512), ("pieces", 100), ("words", 99))
    )
    sizes = ({0: sentences, 1: pieces}, {1: sentences, 2: words})[: len(given[0])]
    exported = torch.export.export(module, given[0], dynamic_shapes=sizes, strict=True).module()
    with torch.no_grad():
        for arguments in given:
            torch.testing.assert_close(exported(*arguments), module(*arguments))
