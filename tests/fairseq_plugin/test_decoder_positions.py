"""Positions of the decoder: step by step equals the whole; what looks ahead is refused; the log."""

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_posattn.core import positions
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
from fairseq_posattn.files.command_line import one_line
from support import own_classes
from support.in_process import batch, build, generate, hypotheses_and_scores, train

EACH = ["none", "sequence", "wave(periods=5|50)", "sequence + wave"]
FLAG = "--no-token-positional-embeddings"


@pytest.fixture(scope="module", autouse=True)
def wave(tmp_path_factory):
    """The position that the documentation shows, which does not look ahead."""
    with own_classes.registered(tmp_path_factory.mktemp("own")):
        yield


@pytest.fixture(scope="module")
def model_of(toy_data):
    """Makes the model of a specification; the command line is read once."""
    task, _, cfg = build(toy_data)

    def make(specification, **options):
        args = plain_namespace(cfg.model)
        vars(args).update({"decoder_positions": specification, **options})
        torch.manual_seed(1)
        return task, task.build_model(args)

    return make


def test_every_specification_changes_the_output(model_of):
    shared, outputs = model_of("sequence")[1].state_dict(), []
    for specification in EACH:
        task, model = model_of(specification)
        model.load_state_dict({**model.state_dict(), **shared}, strict=False)
        outputs.append(model.eval()(**batch(task)["net_input"])[0].detach())
        assert all((outputs[-1] - other).abs().max() > 1e-4 for other in outputs[:-1])


def test_none_is_fairseqs_flag(model_of):
    task, flagged = model_of("sequence", no_token_positional_embeddings=True)
    _, ours = model_of("none", encoder_positions="none")
    fields = batch(task)["net_input"]
    assert torch.equal(flagged.eval()(**fields)[0], ours.eval()(**fields)[0])
    for part in (flagged.encoder, flagged.decoder):
        assert str(part.positions) == "none" and part.embed_positions is None


@pytest.mark.parametrize("learned", [False, True], ids=["sinusoidal", "learned"])
def test_a_stock_checkpoint_loads(learned, toy_data, model_of, caplog):
    """For --finetune-from-model: the table keeps its values, what is added starts anew."""
    chosen = ("--arch", "transformer", *["--decoder-learned-pos"] * learned)
    stock = build(toy_data, *chosen, seed=2).model.state_dict()
    _, model = model_of("sequence + wave", decoder_learned_pos=learned)
    start = model.decoder.embed_positions.added["wave"].mix.weight.clone()
    model.load_state_dict(dict(stock), strict=True)
    assert "decoder.embed_positions.added.wave.mix.weight" in caplog.text
    assert torch.equal(model.decoder.embed_positions.added["wave"].mix.weight, start)
    if learned:
        table = model.decoder.embed_positions.table.weight
        assert torch.equal(table, stock["decoder.embed_positions.weight"])
    model.load_state_dict(model.state_dict(), strict=True)  # and what it stores itself


# what is refused


class AheadPosition(positions.Position):
    """This position looks at the length of the sentence."""

    name = "ahead"


class TreePosition(positions.Position):
    name = "of_tree"
    needs_tree = True
    causal_safe = True


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tree_depth", "reads trees, but target sentences have none"),
        ("sequence + tree_depth", "reads trees, but target sentences have none"),
        ("of_tree", "reads trees, but target sentences have none"),
        ("ahead", "depends on words that are not yet translated"),
    ],
)
def test_what_looks_ahead_is_refused(name, reason, toy_data, tmp_path, monkeypatch):
    for cls in (AheadPosition, TreePosition):
        monkeypatch.setitem(positions.POSITIONS, cls.name, cls)
    result = train(toy_data, tmp_path, "--decoder-positions", name, check=False)
    assert isinstance(result.error, InputError)
    last = name.split(" + ")[-1]
    assert one_line(f"{result.error}") == (
        f"'{last}' {reason}; --decoder-positions takes: none, sequence, wave"
    )
    assert not list(tmp_path.glob("*.pt"))


def test_a_position_that_does_not_fit_the_model(model_of, monkeypatch):
    def check(cls, options, shape):
        raise ValueError(f"the width {shape.width} is odd; of at most {shape.max_positions}")

    monkeypatch.setattr(positions.POSITIONS["wave"], "check", classmethod(check))
    for side in ("encoder", "decoder"):
        with pytest.raises(SpecificationError, match=r"wave\(periods=3.0\): the width 32 is odd;"):
            model_of("sequence", **{f"{side}_positions": "wave(periods=3)"})


# --no-token-positional-embeddings


def logged(output: str) -> str:
    (line,) = [k for k in output.splitlines() if "posattn_transformer: --encoder" in k]
    return line


@pytest.mark.long
def test_the_log_says_which_positions_there_are(toy_data, tmp_path):
    runs = {
        (): "--encoder-positions 'sequence' --encoder-attention '' --decoder-positions 'sequence'",
        (FLAG,): "--encoder-positions 'none' --encoder-attention '' --decoder-positions 'none'",
        (FLAG, "--encoder-positions", "tree_depth"): (
            "--encoder-positions 'tree_depth' --encoder-attention '' --decoder-positions 'none'"
        ),
        (FLAG, "--decoder-positions", "wave"): "--decoder-positions 'wave(periods=7.0|31.0)'",
        ("--decoder-positions", "none"): "'sequence' --encoder-attention '' --decoder-positions 'n",
    }
    for number, (options, expected) in enumerate(runs.items()):
        folder = tmp_path / str(number)
        output = train(toy_data, folder, *options, "--max-update", "1").output
        assert expected in logged(output)
        translated = generate(toy_data, folder / "checkpoint_last.pt", "--max-len-b", "5").output
        assert logged(translated).endswith(logged(output).split("| ")[-1])
        assert len(hypotheses_and_scores(translated)) == 60


def test_a_preset_whose_positions_the_flag_takes_away(toy_data, tmp_path):
    """The preset's words are nobody's contradiction, as before."""
    chosen = ("--arch", "posattn_sequence_tiny", FLAG, "--max-update", "1")
    assert "--encoder-positions 'none'" in logged(train(toy_data, tmp_path, *chosen).output)
    cfg = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))["cfg"]
    assert cfg["model"]["no_token_positional_embeddings"]
    output = generate(toy_data, tmp_path / "checkpoint_last.pt", "--max-len-b", "5").output
    assert "--encoder-positions 'none'" in logged(output)


@pytest.mark.parametrize("arch", ["posattn_transformer", "posattn_sequence_tiny"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(
    ("chosen", "remedy"),
    [
        ("sequence", "use only one of them"),
        (
            "sequence + wave(periods=3)",
            "to use the other positions alone, pass --{side}-positions wave",
        ),
    ],
)
def test_a_contradiction_on_the_command_line(arch, side, chosen, remedy, toy_data, tmp_path):
    options = ("--arch", arch, f"--{side}-positions", chosen, FLAG)
    result = train(toy_data, tmp_path, *options, check=False)
    assert isinstance(result.error, InputError)
    canonical = chosen.replace("=3", "=3.0")
    assert str(result.error) == (
        f"{FLAG} contradicts --{side}-positions '{canonical}'; {remedy.format(side=side)}"
    )


def test_a_contradiction_that_no_command_line_has(model_of):
    """From hydra or Python: 'sequence' is then the default, but not with others beside it."""
    with pytest.raises(
        SpecificationError, match="other positions alone, pass --decoder-positions wave"
    ):
        model_of("sequence + wave", no_token_positional_embeddings=True)
