"""With an empty specification posattn_transformer is fairseq's transformer, bit for bit."""

import pytest
import torch
from fairseq import checkpoint_utils

from support.commands import FULL_TREE
from support.in_process import batch, build, losses_of_updates, train

STOCK = ("--arch", "transformer")
KINDS = {  # options that change how the model is built
    "plain": (),
    "normalize_before": ("--encoder-normalize-before", "--decoder-normalize-before"),
    "learned_positions": ("--encoder-learned-pos",),
    "layernorm_embedding": ("--layernorm-embedding",),
    "no_positions": ("--no-token-positional-embeddings",),
    "shared": ("--share-all-embeddings", "--no-scale-embedding", "--activation-fn", "gelu"),
}


def pair(data, *options):
    options = ("--dropout", "0.1", "--attention-dropout", "0.1", *options)
    stock, ours = build(data, *STOCK, *options), build(data, *options)
    return stock, ours


@pytest.fixture(params=list(KINDS), scope="module")
def models(request, toy_data):
    return pair(toy_data, *KINDS[request.param])


@pytest.fixture(params=[range(6), [7]], ids=["padded", "one_sentence"])
def sample(request, models):
    made = batch(models[0].task, sentences=request.param)
    padding = made["net_input"]["src_tokens"].eq(models[0].task.source_dictionary.pad())
    assert padding[:, 0].any() == padding.any() == (len(request.param) > 1)  # on the left
    return made


@pytest.mark.long(but=["normalize_before"])
def test_the_same_seed_gives_the_same_parameters(models):
    stock, ours = (built.model.state_dict() for built in models)
    assert list(stock) == list(ours)
    assert all(torch.equal(value, stock[key]) for key, value in ours.items())


def test_the_same_logits_as_in_translating(models, sample):
    with torch.no_grad():
        stock, ours = (built.model.eval()(**sample["net_input"])[0] for built in models)
    assert torch.equal(ours, stock)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_same_logits_and_gradients(models, sample, mode):
    """They are compared in train mode with dropout."""
    logits, gradients = [], []
    for built in models:
        getattr(built.model, mode)()
        built.model.zero_grad()
        torch.manual_seed(3)
        output, _ = built.model(**sample["net_input"])
        output.square().mean().backward()
        logits.append(output.detach())
        gradients.append({name: p.grad.clone() for name, p in built.model.named_parameters()})
    stock, ours = gradients
    assert torch.equal(logits[1], logits[0])
    assert all(torch.equal(gradient, stock[name]) for name, gradient in ours.items())


def test_right_padding_too(models):
    task = models[0].task
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    dataset.left_pad_source = False
    sample = dataset.collater([dataset[k] for k in range(6)])["net_input"]
    assert sample["src_tokens"][:, -1].eq(task.source_dictionary.pad()).any()
    stock, ours = (built.model.eval()(**sample)[0] for built in models)
    dataset.left_pad_source = True
    assert torch.equal(ours, stock)


def test_the_output_of_the_encoder_has_the_same_fields(models, sample):
    fields = {key: sample["net_input"][key] for key in ("src_tokens", "src_lengths")}
    stock, ours = (
        built.model.eval().encoder(**fields, return_all_hiddens=True) for built in models
    )
    assert stock.keys() == ours.keys()
    for name in stock.keys() - {"fc_results"}:  # for adapters: the stock has only None there
        assert len(stock[name]) == len(ours[name])
        for left, right in zip(stock[name], ours[name], strict=True):
            assert left.dtype == right.dtype
            assert torch.equal(right.float(), left.float()), name


@pytest.mark.long(but=["dropout"])
@pytest.mark.parametrize(
    "options",
    [
        ("--dropout", "0"),
        ("--dropout", "0.1", "--attention-dropout", "0.1", "--activation-dropout", "0.1"),
        ("--dropout", "0", "--encoder-layerdrop", "0.4"),
    ],
    ids=["no_dropout", "dropout", "layerdrop"],
)
def test_the_same_training(toy_data, tmp_path, options):
    """It is so in fairseq's own Trainer; with dropout only while both draw in the same order."""
    outputs, states = [], []
    for kind, arch in (("stock", STOCK), ("ours", ())):
        output = train(toy_data, tmp_path / kind, *options, "--max-update", "6", *arch).output
        outputs.append(losses_of_updates(output))
        last = tmp_path / kind / "checkpoint_last.pt"
        states.append(checkpoint_utils.load_checkpoint_to_cpu(str(last))["model"])
    assert len(outputs[0]) == 6
    assert outputs[0] == outputs[1]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_checkpoints_go_both_ways(models, toy_data):
    """Strict loading, as fairseq does it, from another seed."""
    for source, target in (models, models[::-1]):
        with torch.no_grad():
            for parameter in source.model.parameters():
                parameter.add_(0.01)
        state = {key: value.clone() for key, value in source.model.state_dict().items()}
        target.model.load_state_dict(state, strict=True, model_cfg=target.cfg.model)
        loaded = target.model.state_dict()
        assert all(torch.equal(loaded[key], state[key]) for key in loaded if key in state)


def test_missing_parameters_are_not_overlooked(models):
    """Only what a mechanism adds may be missing from a checkpoint."""
    state = models[0].model.state_dict()
    state.pop("encoder.layers.1.self_attn.q_proj.weight")
    with pytest.raises(RuntimeError, match=r"encoder\.layers\.1\.self_attn\.q_proj\.weight"):
        models[1].model.load_state_dict(state, strict=True)


def test_tree_model_takes_a_stock_checkpoint_over(toy_data):
    """What the checkpoint lacks keeps its start."""
    stock, ours = build(toy_data, *STOCK, seed=2), build(toy_data, *FULL_TREE)
    start = {key: value.clone() for key, value in ours.model.state_dict().items()}
    taken = stock.model.state_dict()
    ours.model.load_state_dict(dict(taken), strict=True, model_cfg=ours.cfg.model)
    loaded = ours.model.state_dict()
    added = loaded.keys() - taken.keys()
    assert {key.split(".")[1] for key in added} == {"fuser", "layers"}
    for key, value in loaded.items():
        assert torch.equal(value, start[key] if key in added else taken[key])


def test_the_second_copies_of_the_older_fairseq_are_left_out(toy_data):
    _, model, cfg = build(toy_data)
    state = model.state_dict()
    copies = {f"encoder.layers.0.{name}": torch.zeros(1) for name in ("fc1_weight", "in_proj_bias")}
    model.load_state_dict({**state, **copies}, strict=True, model_cfg=cfg.model)


def test_positions_of_the_older_fairseq_may_be_left_out(toy_data):
    _, model, cfg = build(toy_data, "--encoder-positions", "tree_depth")
    stored = {"encoder.embed_positions._float_tensor": torch.ones(1)}
    model.load_state_dict({**model.state_dict(), **stored}, strict=True, model_cfg=cfg.model)
