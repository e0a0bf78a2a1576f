"""tree_supervised through fairseq's programs: training needs trees, and translation needs none."""

import math
import re
import shutil

import pytest
import torch

from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.criterions import TreeSupervisedCrossEntropy
from support.commands import FULL_TREE, TINY, fairseq
from support.in_process import (
    batch,
    build,
    call,
    generate,
    hypotheses_and_scores,
    interactive,
    train,
    training_options,
    translating,
)

CRITERION = ["--criterion", "tree_supervised_cross_entropy", "--label-smoothing", "0.1"]
SUPERVISED = ["--encoder-attention", "tree_supervised@1", *CRITERION]
BIAFFINE = ["--encoder-attention", "tree_supervised(scores=biaffine, heads=0|1)@1", *CRITERION]


def logged(output, name):
    return [float(number) for number in re.findall(rf"\b{name}=?\s*([\d.]+)", output)]


def same(found, expected):
    """Translations are equal, and their scores but for rounding."""
    assert set(found) == set(expected)
    for number, (text, score) in found.items():
        assert text == expected[number][0]
        assert float(score) == pytest.approx(float(expected[number][1]), abs=1e-5)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("options", [SUPERVISED, BIAFFINE], ids=["dot", "biaffine"])
def test_trained_with_trees_and_translated_without(options, toy_data, bare_data, tmp_path):
    chosen = (*options, "--tree-loss", "2", "--lr", "5e-3", "--validate-interval-updates", "10")
    result = train(toy_data, tmp_path, *chosen, "--max-update", "40")
    found = logged(result.output, "tree_attachment")
    assert len(found) > 3 and max(found[-4:]) > found[0]
    assert logged(result.output, "tree_loss")
    best = tmp_path / "checkpoint_last.pt"
    with_trees = hypotheses_and_scores(generate(toy_data, best).output)
    same(hypotheses_and_scores(generate(bare_data, best).output), with_trees)
    text = (toy_data.parent / "test.src").read_text()
    new = interactive(bare_data, best, text, "--buffer-size", "100", "--batch-size", "16")
    same(hypotheses_and_scores(new.output), with_trees)


OWN = '''"""A head learns to look at the grandparent of each word."""

from dataclasses import replace

from fairseq_posattn import plugin
from fairseq_posattn.attention import Supervised, register
from fairseq_posattn.core.attention.supervised import supervision
from fairseq_posattn.core.attention.supervised import ParentTargets


@register
class Grandparent(Supervised):
    """Looks at the word two steps up."""

    name = "grandparent"
    accepts_heads = True

    def supervise(self, scores, ctx):
        if ctx.tree is None:
            return None
        parents = ctx.tree.parents
        tree = replace(ctx.tree, parents=parents.gather(1, parents))
        return supervision(scores, ParentTargets.all(tree))
'''


@pytest.mark.long(ci=True)
def test_a_head_of_ones_own_learns_from_trees(toy_data, bare_data, tmp_path):
    folder = tmp_path / "own_heads"
    folder.mkdir()
    (folder / "__init__.py").write_text(OWN)
    chosen = ["--encoder-attention", "grandparent(heads=0)@1", *CRITERION, "--user-dir", folder]
    steps = ["--max-update", "40", "--lr", "5e-3", "--validate-interval-updates", "10"]
    output = fairseq("train", *training_options(toy_data, tmp_path / "run", *chosen, *steps)).stdout
    found = logged(output, "tree_attachment")
    assert max(found[-4:]) > found[0]


@pytest.fixture(scope="module")
def best(toy_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("supervised")
    train(toy_data, folder, *SUPERVISED, "--max-update", "3")
    return folder / "checkpoint_last.pt"


@pytest.mark.long(ci=True)
def test_under_the_stock_task_it_translates(best, toy_data, bare_data):
    expected = hypotheses_and_scores(generate(toy_data, best).output)
    stock = translating(bare_data, best)
    stock[stock.index("structured_translation")] = "translation"
    found = call("generate", *stock, "--batch-size", "16")
    translated = hypotheses_and_scores(found.output)  # the stock task leaves out the last batch
    assert len(translated) > 50
    same(translated, {number: expected[number] for number in translated})


def supervised(data, *options):
    task, model, cfg = build(data, *options)
    return task, model.double(), task.build_criterion(cfg.criterion)


@pytest.mark.parametrize("options", [SUPERVISED, BIAFFINE], ids=["dot", "biaffine"])
def test_the_loss_is_that_of_the_translation_and_the_mean_of_the_heads(options, toy_data):
    task, model, criterion = supervised(toy_data, *options, "--tree-loss", "0.25")
    sample = batch(task)
    model.eval()
    loss, size, of_batch = criterion(model, sample)
    plain = criterion.eps, criterion.tree_loss
    assert plain == (0.1, 0.25)
    criterion.tree_loss = 0.0
    without, _, _ = criterion(model, sample)
    mean = of_batch["tree_loss"] / of_batch["tree_pieces"]
    torch.testing.assert_close(loss, without + 0.25 * mean * size)
    heads = 2 if options is BIAFFINE else 1
    pad = task.source_dictionary.pad()
    tokens = sample["net_input"]["src_tokens"]
    assert of_batch["tree_pieces"] == heads * (tokens.ne(pad).sum() - len(tokens))
    tree = SourceTree.of_batch(sample["net_input"]["source_tree"], tokens != pad)
    words = sum(len(set(row.tolist()) - {-1}) - 1 for row in tree.words)
    assert of_batch["tree_words"] == heads * words


@pytest.mark.parametrize("options", [BIAFFINE, FULL_TREE], ids=["supervised", "relative"])
def test_gradients_under_activation_checkpointing(options, toy_data):
    """The loss of a head must reach the layers below it, also in layers that run twice, and each
    batch has its own trees, also where another one comes before `backward`."""
    gradients = []
    for extra in ([], ["--checkpoint-activations"]):
        task, model, criterion = supervised(toy_data, *options, *extra)
        model.train()
        samples = batch(task), batch(task, sentences=range(6, 12))
        sum(criterion(model, sample)[0] for sample in samples).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    names = [name.replace("_checkpoint_wrapped_module.", "") for name in gradients[1]]
    assert set(names) == set(gradients[0])
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient)


def test_the_tree_loss_reaches_the_layers_below_only(toy_data):
    task, model, _ = supervised(toy_data, *SUPERVISED)
    model.eval()
    output = model(**batch(task)["net_input"])
    output[1]["tree_supervision"][0].backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None}
    assert "encoder.layers.1.self_attn.q_proj.weight" in touched
    assert "encoder.layers.0.fc1.weight" in touched
    assert not any("decoder.layers" in name or "layers.1.fc1" in name for name in touched)


def test_a_layer_that_is_dropped_has_no_loss(toy_data):
    """--encoder-layerdrop leaves layers out by chance, also the one with the head."""
    task, model, criterion = supervised(toy_data, *SUPERVISED, "--encoder-layerdrop", "0.999")
    _, _, of_batch = criterion(model.train(), batch(task))
    assert of_batch["tree_loss"] == of_batch["tree_pieces"] == 0


def test_what_workers_and_batches_log_is_summed():
    """The attachment is that of all words, not the mean of the batches."""
    from fairseq.logging import meters, metrics

    logs = [
        {"tree_loss": 2.0, "tree_pieces": 4, "tree_right": 1, "tree_words": 2},
        {"tree_loss": 10.0, "tree_pieces": 8, "tree_right": 5, "tree_words": 6},
    ]
    common = {"loss": 1.0, "nll_loss": 1.0, "ntokens": 3, "sample_size": 3}
    with metrics.aggregate(new_root=True) as found:
        TreeSupervisedCrossEntropy.reduce_metrics([{**log, **common} for log in logs])
    values = found.get_smoothed_values()
    assert isinstance(found, meters.MetersDict)
    assert values["tree_attachment"] == 75.0
    assert values["tree_loss"] == round(12 / 12 / math.log(2), 3)
    with metrics.aggregate(new_root=True) as found:
        TreeSupervisedCrossEntropy.reduce_metrics([common])
    assert "tree_attachment" not in found.get_smoothed_values()
    assert TreeSupervisedCrossEntropy.logging_outputs_can_be_summed()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoder-attention", "tree_supervised@1"], "require each other; add the criterion"),
        (CRITERION, "require each other; add the mechanism"),
        ([*SUPERVISED, "--tree-loss", "-1"], "--tree-loss -1.0: expected a finite number >= 0"),
        *(
            (["--task", "translation", *SUPERVISED[:2], *more], "train with --task structured_tra")
            for more in ([], CRITERION)
        ),
    ],
)
def test_mechanism_criterion_and_task_need_each_other(options, message, toy_data, tmp_path):
    result = train(toy_data, tmp_path, *options, check=False)
    assert isinstance(result.error, InputError) and message in str(result.error)


def test_training_data_without_trees_are_refused(bare_data, tmp_path):
    result = train(bare_data, tmp_path, *SUPERVISED, check=False)
    assert isinstance(result.error, InputError)
    assert "learns from trees, but the training data have none" in str(result.error)
    assert str(bare_data) in str(result.error)
    assert not list(tmp_path.glob("*.pt"))


def test_beside_a_stock_model_and_damaged_trees(best, toy_data, stock_model, tmp_path):
    """Translation leaves the trees beside the data alone, so they stop no ensemble either."""
    expected = hypotheses_and_scores(generate(toy_data, best).output)
    damaged = tmp_path / "data"
    shutil.copytree(toy_data, damaged)
    for path in damaged.glob("test.*.tree.bin"):
        path.write_bytes(path.read_bytes()[:-1])
    same(hypotheses_and_scores(generate(damaged, best).output), expected)
    both = generate(toy_data, f"{best}:{stock_model}").output
    assert len(hypotheses_and_scores(both)) == len(expected)


def test_the_weight_of_the_loss_is_the_same_with_sentence_avg(toy_data):
    losses = []
    for extra in ([], ["--sentence-avg"]):
        task, model, criterion = supervised(toy_data, *SUPERVISED, *extra)
        loss, size, _ = criterion(model.eval(), batch(task))
        losses.append(loss)
    assert size == len(batch(task)["target"])  # of sentences
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("arch", ["transformer_tiny", "lstm"])
def test_other_models_cannot_learn_from_trees(arch, toy_data, tmp_path):
    options = training_options(toy_data, tmp_path, "--task", "translation", *CRITERION)
    at = options.index(TINY[0])
    del options[at : at + len(TINY)]  # not all of these are options of every model
    result = call("train", *options, "--arch", arch, check=False)
    assert isinstance(result.error, InputError)
    assert "needs a posattn_transformer with a head" in str(result.error)


def test_a_pruned_model_has_no_head_that_learns(best, toy_data, tmp_path):
    pruned = ["--restore-file", str(best), "--encoder-layers-to-keep", "0", *SUPERVISED]
    result = train(toy_data, tmp_path, *pruned, check=False)
    assert isinstance(result.error, InputError)
    assert "require each other; add the mechanism" in str(result.error)
