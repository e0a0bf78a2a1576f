"""Mechanisms in models of transformers: random models, and nothing is downloaded."""

import copy
import io
import json
import pickle
import re
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("transformers")
import transformers as hf
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.errors import InputError
from fairseq_posattn.integrations.attention_interface import NAME
from fairseq_posattn.integrations.hugging_face import (
    TreeCollator,
    add_attention,
    encode,
    from_pretrained,
)
from fairseq_posattn.plugin import PosattnTransformerModel
from fairseq_posattn.trees.sentence import Sentence
from support.commands import ROOT, run
from support.files import lines_of, write
from support.tiny_models import FAMILIES, SEQ2SEQ, WITH_DECODER, batch, outputs, random_model


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_changes_without_mechanisms(name):
    model = random_model(name)
    stock = outputs(model, batch(), trees=False)
    assert add_attention(model, "") is model
    assert torch.equal(outputs(model, batch(), trees=False), stock)
    assert torch.equal(outputs(model, batch()), stock)


@pytest.mark.parametrize("name", FAMILIES)
def test_layers_without_mechanisms_stay_as_they_were(name):
    model = random_model(name)
    stock = outputs(model, batch(), trees=False)
    add_attention(model, "tree_relative", layers=[1])
    parameters = dict(model.named_parameters())
    ours = {key for key in parameters if NAME in key}
    assert ours and all(".1." in key for key in ours)
    for key in ours:
        torch.nn.init.zeros_(parameters[key])  # so they add nothing
    torch.testing.assert_close(outputs(model, batch()), stock, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_batch_without_trees_is_refused(name):
    model = add_attention(random_model(name), "tree_relative")
    outputs(model, batch())
    with pytest.raises(InputError, match="reads dependency trees, but the batch contains none"):
        outputs(model, batch(), trees=False)


def test_an_encoder_alone_reads_its_own_trees():
    """Those of the batch before would be read in silence."""
    model, given = add_attention(random_model("Bart"), "tree_relative"), batch()
    right = model(**given).encoder_last_hidden_state
    other = {**given, "source_tree": given["source_tree"].clone()}
    other["source_tree"][:, 1] = 0  # all words are children of the first
    assert not torch.allclose(model(**other).encoder_last_hidden_state, right)
    names = ("input_ids", "attention_mask", "source_tree")
    found = model.get_encoder()(**{name: given[name] for name in names})[0]
    real = given["attention_mask"].bool()
    torch.testing.assert_close(found[real], right[real])
    with pytest.raises(InputError, match="reads dependency trees, but the batch contains none"):
        model.get_encoder()(**{name: given[name] for name in names[:2]})


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("first", [False, True], ids=["added first", "checkpointing first"])
@pytest.mark.parametrize("name", ["Bart", "T5", "Bert"])
def test_layers_that_run_again_read_the_trees_of_their_batch(name, first, reentrant):
    """Gradient checkpointing runs them again in backward, when other batches have come in."""
    gradients = []
    for checkpoints in (False, True):
        model, kwargs = random_model(name), {"use_reentrant": reentrant}
        if checkpoints and first:
            model.gradient_checkpointing_enable(kwargs)
        add_attention(model, "tree_relative")
        if checkpoints and not first:
            model.gradient_checkpointing_enable(kwargs)
        model.train()
        for dropout in (m for m in model.modules() if isinstance(m, torch.nn.Dropout)):
            dropout.p = 0.0
        model.config.attention_probs_dropout_prob = 0.0
        for attention in model.modules():
            if hasattr(attention, "attention_dropout"):
                attention.attention_dropout = 0.0
        other = batch(left=True)
        other["source_tree"][:, 1] = 0  # all words are children of the first
        sum(outputs(model, one).square().sum() for one in (batch(), other)).backward()
        gradients.append({key: p.grad for key, p in model.named_parameters() if NAME in key})
    assert gradients[0]
    for key, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], gradient, rtol=1e-4, atol=1e-4)


# The same numbers as our own encoder

NEEDS_MORE = {"tree_gcn", "cnn", "block", "tree_supervised", "brackets", "tree_walk", "tree_labels"}


def own_encoder(specification: str):
    """Our encoder, which reads embeddings as they are."""
    dictionary = Dictionary()
    for number in range(56):
        dictionary.add_symbol(f"w{number}")
    task = SimpleNamespace(
        source_dictionary=dictionary, target_dictionary=dictionary, provides_trees=True
    )
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 2), ("embed_dim", 32), ("attention_heads", 4))
    }
    args = Namespace(arch="posattn_transformer", encoder_ffn_embed_dim=48, dropout=0.0, **sizes)
    args.encoder_positions, args.encoder_attention = "none", specification
    args.layernorm_embedding, args.activation_fn = True, "relu"
    args.max_source_positions = 64
    ARCH_CONFIG_REGISTRY["posattn_no_positions_tiny"](args)
    return PosattnTransformerModel.build_model(args, task).eval().encoder


def with_weights_of(encoder, model) -> None:
    """Give a BART the weights of our encoder; its positions become zero."""
    own, theirs = encoder.state_dict(), model.get_encoder()
    names = {"layernorm_embedding": "layernorm_embedding", "layers": "layers"}
    found = {}
    for key in theirs.state_dict():
        of_ours = key.replace(f"self_attn.{NAME}.", "self_attn.mechanisms.")
        of_ours = of_ours.replace(f"{NAME}_shared.", "shared_mechanisms.")
        if of_ours in own and of_ours.split(".")[0] in {*names, "shared_mechanisms"}:
            found[key] = own[of_ours]
    lacking, _ = theirs.load_state_dict(found, strict=False)
    assert {key.split(".")[0] for key in lacking} <= {"embed_tokens", "embed_positions"}
    torch.nn.init.zeros_(theirs.embed_positions.weight)


@pytest.mark.parametrize(
    "use",
    [
        f"{name}({options})" if options else name
        for name, mechanism in sorted(MECHANISMS.items())
        if name not in NEEDS_MORE
        for options in mechanism.examples
    ],
)
def test_each_mechanism_computes_what_our_encoder_does(use):
    torch.manual_seed(3)
    encoder = own_encoder(use)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, float(parameter.dim() == 1), 0.3)
    model = add_attention(random_model("Bart", activation_function="relu"), use)
    with_weights_of(encoder, model)
    encoder, model = encoder.double(), model.double()
    given = batch()
    x = torch.randn(3, 9, 32, dtype=torch.float64)
    real = given["attention_mask"].bool()
    counts, parents = torch.zeros(2, 3, 9).long()
    for row, (words, above) in enumerate(given["source_tree"]):
        number = int(words.max())
        counts[row, :number] = torch.bincount(words[words >= 0])[:number]
        parents[row, :number] = above[:number] + 1
        parents[row, 0] = 0
    with torch.no_grad():
        expected = encoder(
            torch.where(real, 5, encoder.padding_idx),
            token_embeddings=x / encoder.embed_scale,
            source_tree=torch.stack([parents, counts]),
        )["encoder_out"][0].transpose(0, 1)
        given = {name: given[name] for name in ("attention_mask", "source_tree")}
        found = model.get_encoder()(inputs_embeds=x, **given)
    torch.testing.assert_close(found[0][real], expected[real], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(NEEDS_MORE))
def test_what_needs_more_is_refused_by_name(name):
    for side in ("encoder", "decoder"):
        with pytest.raises(InputError, match=name):
            add_attention(random_model("Bart"), name, side=side)


def test_why_mechanisms_are_refused():
    with pytest.raises(InputError, match=r"'tree_walk' .* it acts in cross-attention"):
        add_attention(random_model("Bart"), "tree_walk")
    with pytest.raises(InputError, match=r"brackets.* it reads the brackets \( and \) of the "):
        add_attention(random_model("Bart"), "brackets", side="decoder")


def test_what_cannot_be_given_mechanisms(monkeypatch):
    with pytest.raises(InputError, match="side='both' does not exist; choose encoder or decoder"):
        add_attention(random_model("Bart"), "relative", side="both")
    with pytest.raises(InputError, match="decoders work only in encoder-decoder models"):
        add_attention(random_model("Bert"), "relative", side="decoder")
    model = add_attention(random_model("Bart"), "relative")
    with pytest.raises(InputError, match=r"the encoder of this .* already has mechanisms"):
        add_attention(model, "rope")
    with pytest.raises(InputError, match=r"relative@7: the model has 2 layers"):
        add_attention(random_model("Bart"), "relative@7")
    for layers in ([-1], [0, 7], [True], ["1"]):
        with pytest.raises(InputError, match=rf"there is no layer {layers[-1]}; .* the 2 layers"):
            add_attention(random_model("Bart"), "relative", layers)
    with pytest.raises(InputError, match=r"layers=.* is not a list; pass a list of numbers, such"):
        add_attention(random_model("Bart"), "relative", 5)
    gpt = hf.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=9)
    with pytest.raises(InputError, match="has no known self-attention"):
        add_attention(hf.GPT2Model(gpt), "relative")
    monkeypatch.delattr(sys.modules[hf.BartModel.__module__], "ALL_ATTENTION_FUNCTIONS")
    with pytest.raises(InputError, match="does not use the AttentionInterface in this release"):
        add_attention(random_model("Bart"), "relative")


# Weights


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_of_each_layer(name):
    """Layers without mechanisms, and cross-attention, return those of the library."""
    stock = random_model(name, attn_implementation="eager")
    expected = every_output(stock)
    model = random_model(name)
    for side in ("encoder", "decoder") if name in WITH_DECODER else ("encoder",):
        add_attention(model, "relative(max=3)", layers=[1], side=side)
    for key, parameter in model.named_parameters():
        if NAME in key:
            torch.nn.init.zeros_(parameter)  # so they add nothing
    found = every_output(model)
    kinds = [key for key in expected if "attentions" in key and expected[key]]
    assert len(kinds) == (3 if name in WITH_DECODER else 1)
    real = batch()["attention_mask"].bool()
    for kind in kinds:
        assert len(found[kind]) == len(expected[kind]), kind
        for ours, theirs in zip(found[kind], expected[kind], strict=True):
            if theirs.size(2) == real.size(1):  # rows of padding have no meaning
                ours, theirs = (one.transpose(1, 2)[real] for one in (ours, theirs))
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5, msg=kind)


def every_output(model):
    given = batch()
    del given["source_tree"]
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.arange(4, 25).view(3, 7)
    return model(**given, output_attentions=True)


def test_weights_of_each_step():
    model = add_attention(random_model("Bart"), "relative(max=3)", layers=[1], side="decoder")
    how = {"max_new_tokens": 4, "min_new_tokens": 4, "return_dict_in_generate": True}
    found = model.generate(**batch(), **how, output_attentions=True, num_beams=1)
    for kind in (found.decoder_attentions, found.cross_attentions):
        assert [len(step) for step in kind] == [2] * 4
    assert [step[0].size(-1) for step in found.decoder_attentions] == [1, 2, 3, 4]


# Copies


@pytest.mark.parametrize("name", ["Bart", "T5"])
def test_copies_of_a_model(name):
    model = add_attention(random_model(name), "relative(max=3) + tree_relative + t5_bias")
    expected = outputs(model, batch())
    stored = io.BytesIO()
    torch.save(model, stored)
    stored.seek(0)
    for again in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(stored, weights_only=False),
    ):
        assert type(again) is type(model)
        assert torch.equal(outputs(again, batch()), expected)
        with pytest.raises(InputError, match="but the batch contains none"):
            outputs(again, batch(), trees=False)
        for parameter in again.parameters():
            torch.nn.init.zeros_(parameter)
    assert torch.equal(outputs(model, batch()), expected)


# Padding, search, training


@pytest.mark.parametrize("name", ["T5", "M2M100"])  # their positions do not count padding
def test_padding_on_either_side(name):
    model = add_attention(random_model(name), "relative(max=3) + tree_relative(max=2)")
    add_attention(model, "relative(max=3)", side="decoder")
    right, left = outputs(model, batch()), outputs(model, batch(left=True))
    torch.testing.assert_close(left, right, rtol=0, atol=2e-4)
    alone = outputs(model, batch(rows=[2]))
    torch.testing.assert_close(alone[0], right[2], rtol=0, atol=2e-4)


@pytest.mark.parametrize("name", WITH_DECODER)
def test_beams_step_by_step(name):
    model = add_attention(random_model(name), "relative(max=3) + tree_relative(max=2)")
    add_attention(model, "relative(max=2) + rope", side="decoder")
    how = {"num_beams": 3, "max_new_tokens": 8, "min_new_tokens": 8, "output_scores": True}
    how |= {"return_dict_in_generate": True, "do_sample": False}
    found = model.generate(**batch(), **how)
    whole = model.generate(**batch(), use_cache=False, **how)
    assert torch.equal(found.sequences, whole.sequences)
    torch.testing.assert_close(found.sequences_scores, whole.sequences_scores, rtol=0, atol=1e-4)
    alone = model.generate(**batch(rows=[2]), **how)
    assert torch.equal(alone.sequences[0], found.sequences[2])
    with pytest.raises(InputError, match="but the batch contains none"):
        model.generate(**{k: v for k, v in batch().items() if k != "source_tree"}, **how)


def test_each_device_has_its_trees():
    """DataParallel shares what is no parameter between the copies of a model."""
    state = add_attention(random_model("Bart"), "tree_relative").__dict__[f"{NAME}_state"]
    tree, other = batch()["source_tree"], torch.zeros(3, 2, 9, device="meta")
    state.begin(tree, [])
    assert state.tree_on(torch.device("meta")).shape == tree.shape  # a layer of the same model
    state.begin(other, [])
    assert state.tree_on(torch.device("cpu")) is tree
    assert state.tree_on(torch.device("meta")) is other
    state.begin(None, [torch.zeros(1)])
    assert state.tree_on(torch.device("cpu")) is None


@pytest.mark.parametrize("part", [(slice(1), ...), (..., slice(5))])
def test_trees_of_another_batch_are_refused(part):
    model, given = add_attention(random_model("Bart"), "tree_relative"), batch()
    given["source_tree"] = given["source_tree"][part]
    with pytest.raises(
        InputError, match=r"source_tree has the shape \(B=\d, 2, T=\d\), but the bat"
    ):
        outputs(model, given)


def test_a_mask_of_something_else_is_refused():
    model = add_attention(random_model("Bert"), "relative")
    given = batch()
    mask = given["attention_mask"][:, None, None, :].expand(3, 1, 9, 9).bool().clone()
    mask[0, 0, 3, 5] = False
    with pytest.raises(InputError, match="hides more than padding"):
        model(input_ids=given["input_ids"], attention_mask=mask)


def test_a_cache_with_room_to_spare_is_refused():
    model = add_attention(random_model("Bart"), "relative", side="decoder")
    with pytest.raises(InputError, match="or the key-value cache is preallocated"):
        model.generate(**batch(), max_new_tokens=5, cache_implementation="static")


def sentences() -> list[dict]:
    given = batch()
    return [
        {
            "input_ids": ids[: sum(mask)],
            "attention_mask": mask[: sum(mask)],
            "labels": ids[: sum(mask)][::-1],
            "source_tree": [words[: sum(mask)], parents[: sum(mask)]],
        }
        for ids, mask, (words, parents) in zip(
            *(given[key].tolist() for key in ("input_ids", "attention_mask", "source_tree")),
            strict=True,
        )
    ]


class Padder:
    """What a collator of transformers does, without a tokenizer."""

    def __call__(self, features):
        width = max(len(one["input_ids"]) for one in features)
        fill = {"input_ids": 1, "attention_mask": 0, "labels": -100}
        return {
            key: torch.tensor([one[key] + [value] * (width - len(one[key])) for one in features])
            for key, value in fill.items()
        }


def test_a_trainer_trains_saves_and_loads(tmp_path):
    pytest.importorskip("accelerate")
    model = add_attention(random_model("Marian"), "relative(max=3) + tree_relative + t5_bias")
    args = hf.Seq2SeqTrainingArguments(
        *(str(tmp_path / "run"),),
        **{"max_steps": 10, "learning_rate": 3e-2, "logging_steps": 1, "save_strategy": "no"},
        **{"use_cpu": True, "per_device_train_batch_size": 3, "report_to": [], "seed": 1},
        **{"predict_with_generate": True, "generation_max_length": 6, "disable_tqdm": True},
    )
    trainer = hf.Seq2SeqTrainer(
        model=model, args=args, train_dataset=sentences(), data_collator=TreeCollator(Padder())
    )
    before = {k: v.clone() for k, v in model.state_dict().items() if NAME in k}
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 10 and losses[-1] < 0.8 * losses[0]
    assert before and all(not torch.equal(model.state_dict()[k], v) for k, v in before.items())
    assert trainer.predict(sentences()).predictions.shape[0] == 3
    model.eval()
    expected = outputs(model, batch())
    trainer.save_model(str(tmp_path / "saved"))
    again = from_pretrained(hf.MarianMTModel, tmp_path / "saved").eval()
    assert torch.equal(outputs(again, batch()), expected)
    assert again.config.posattn["encoder"]["specification"].startswith("relative(max=3")
    again.save_pretrained(tmp_path / "twice")
    twice = from_pretrained(hf.MarianMTModel, tmp_path / "twice").eval()
    assert torch.equal(outputs(twice, batch()), expected)


TWO_PROCESSES = """
import sys
sys.path.insert(0, sys.argv[1])
import conftest, hashlib, os
import test_hugging_face as own
model = own.add_attention(own.random_model("Marian"), "relative(max=3) + tree_relative")
args = own.hf.Seq2SeqTrainingArguments(
    sys.argv[2], max_steps=4, learning_rate=1e-2, save_strategy="no", use_cpu=True, report_to=[],
    per_device_train_batch_size=1, ddp_backend="gloo", disable_tqdm=True, seed=1,
)
trainer = own.hf.Seq2SeqTrainer(
    model=model, args=args, train_dataset=own.sentences() * 4,
    data_collator=own.TreeCollator(own.Padder()),
)
trainer.train()
numbers = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
os.makedirs(sys.argv[2], exist_ok=True)
with open(os.path.join(sys.argv[2], os.environ["RANK"] + ".sum"), "w") as file:
    file.write(hashlib.sha256(numbers).hexdigest())
"""


@pytest.mark.long
def test_two_processes_train_as_one(tmp_path):
    """Each takes its share of the batches, trees with them, and both have the same model."""
    pytest.importorskip("accelerate")
    write(tmp_path / "train.py", TWO_PROCESSES)
    starter = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    folders = (ROOT / "tests/integrations", tmp_path / "run")
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    run(*starter, tmp_path / "train.py", *folders, env=env, fresh=True)
    sums = [(tmp_path / "run" / f"{rank}.sum").read_text() for rank in (0, 1)]
    assert sums[0] == sums[1]


# Trees


def tokenizer():
    """A fast tokenizer that splits words after three letters, with special pieces around them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    letters = [chr(k) for k in range(97, 123)]
    vocabulary = {piece: k for k, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters])}
    fast = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>", max_input_chars_per_word=50))
    for letter in letters:
        fast.add_tokens([f"##{letter}"])
    fast = Tokenizer(
        models.WordPiece(
            {**vocabulary, **{f"##{letter}": 40 + k for k, letter in enumerate(letters)}},
            unk_token="<unk>",
        )
    )
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=fast, **special)


@pytest.mark.parametrize("side", ["left", "right"])
def test_trees_of_a_batch_by_hand(side):
    pieces = tokenizer()
    pieces.padding_side = side
    first = encode(pieces, Sentence(["she", "is", "in"], [2, 0, 2]))
    second = encode(pieces, Sentence(["go"], [0]))
    assert first["source_tree"] == [[3, 0, 0, 0, 1, 1, 2, 2, 3], [1, 1, 1]]
    assert second["source_tree"] == [[1, 0, 0, 1], [0]]
    made = TreeCollator(hf.DataCollatorWithPadding(pieces))([first, second])
    short = [1, 0, 0, 1]
    assert made["source_tree"][0, 0].tolist() == [3, 0, 0, 0, 1, 1, 2, 2, 3]
    padded = [*short, *[-1] * 5] if side == "right" else [*[-1] * 5, *short]
    assert made["source_tree"][1].tolist() == [padded, list(range(9))]
    assert made["input_ids"].shape == (2, 9)


def test_a_tree_of_another_text_is_refused():
    with pytest.raises(InputError, match="text and tree do not match"):
        encode(tokenizer(), Sentence(["she", "is"], [2, 0], text="he was"))
    with pytest.raises(InputError, match="the sentence has no tree; parse it"):
        encode(tokenizer(), Sentence(["she", "is"]))
    with pytest.raises(InputError, match="'she is': the tokenizer adds no end-of-sentence symbol"):
        encode(tokenizer(), Sentence(["she", "is"], [2, 0]), add_special_tokens=False)


def test_what_is_no_tree():
    with pytest.raises(InputError, match=r"'she is': the sentence has 2 roots \(words 1, 2\)"):
        encode(tokenizer(), Sentence(["she", "is"], [0, 0]))
    with pytest.raises(InputError, match="'a b c d': the parents form a cycle: 3 -> 4 -> 3"):
        encode(tokenizer(), Sentence(["a", "b", "c", "d"], [0, 1, 4, 3]))


NO_TREES = {  # the sentences have 5, 3 and 2 words
    "cycle": (0, [0, 2, 1, 0, 0]),
    "no root": (1, [1, 2, 0]),
    "parent beyond the sentence": (1, [0, 0, 3]),
    "parent beyond the batch": (0, [0, 0, 1, 9, 0]),
}


@pytest.mark.parametrize(("row", "parents"), NO_TREES.values(), ids=NO_TREES)
@pytest.mark.parametrize("specification", ["tree_relative", "tree_window"])
def test_a_batch_without_right_trees(row, parents, specification):
    model, given = add_attention(random_model("Bart"), specification), batch()
    given["source_tree"][row, 1, : len(parents)] = torch.tensor(parents)
    with pytest.raises(InputError, match=f"source_tree: sentence {row} of the batch is not a tree"):
        outputs(model, given)
    with pytest.raises(InputError, match=f"source_tree: sentence {row} of the batch is not a tree"):
        model.generate(**given, max_new_tokens=2)


def test_a_batch_of_something_else():
    model, given = add_attention(random_model("Bart"), "tree_relative"), batch()
    for other in (given["source_tree"].float(), given["source_tree"][:, :1]):
        with pytest.raises(InputError, match="source_tree has the shape"):
            outputs(model, {**given, "source_tree": other})
    for place, word in (((0, 0, 2), -5), ((0, 0, 2), 99)):
        wrong = {**given, "source_tree": given["source_tree"].clone()}
        wrong["source_tree"][place] = word
        with pytest.raises(InputError, match="sentence 0 of the batch is not a tree"):
            outputs(model, wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "max_length", "max_length": 20},
        {"return_tensors": "pt"},
        {"text_pair": "he was"},
        {"return_overflowing_tokens": True, "truncation": True, "max_length": 4},
        {"is_split_into_words": True},
    ],
)
def test_options_that_separate_pieces_from_words(options):
    name, value = next(iter(options.items()))
    message = re.escape(f"encode does not accept the option {name}={value!r}; ")
    with pytest.raises(InputError, match=message):
        encode(tokenizer(), Sentence(["she", "is"], [2, 0]), **options)


def test_batches_that_a_collator_cannot_make():
    collator = TreeCollator(hf.DataCollatorWithPadding(tokenizer()))
    first = encode(tokenizer(), Sentence(["she", "is"], [2, 0]))
    second = {key: value for key, value in first.items() if key != "source_tree"}
    with pytest.raises(InputError, match="sentence 1 of the batch has no source_tree"):
        collator([first, second])
    second = {**first, "source_tree": [[0, 1], [0]]}
    with pytest.raises(InputError, match="sentence 1 of the batch has 7 pieces, but its source_t"):
        collator([first, second])
    with pytest.raises(InputError, match="the batch has no attention_mask"):
        TreeCollator(lambda features: {"input_ids": torch.zeros(1, 7)})([first])


def test_multiword_tokens_and_cut_sentences():
    tree = Sentence(["in", "dem", "haus"], [3, 3, 0], multiword=[(0, 2, "im")])
    assert encode(tokenizer(), tree)["source_tree"][0] == [3, 0, 0, 2, 2, 2, 2, 3]
    cut = encode(tokenizer(), tree, truncation=True, max_length=5)
    assert cut["source_tree"] == [[3, 0, 0, 2, 3], [2, 2, 2]]


@pytest.mark.parametrize(
    "use",
    [
        f"{name}({mechanism.neutral})" if mechanism.neutral else name
        for name, mechanism in sorted(MECHANISMS.items())
        if name not in NEEDS_MORE | {"alibi"} and mechanism.neutral is not None
    ],
)
def test_a_model_that_begins_as_it_was(use):
    model = random_model("T5")
    stock = outputs(model, batch(), trees=False)
    add_attention(model, use, neutral=True)
    torch.testing.assert_close(outputs(model, batch()), stock, rtol=0, atol=5e-5)


def test_what_changes_a_model_at_once():
    for use in ("window", "rope", "alibi", "window(size=3)"):
        with pytest.raises(InputError, match="before training; omit neutral=True"):
            add_attention(random_model("Bart"), use, neutral=True)


# The page


def marian(folder):
    """A random Marian with a tokenizer of its own, and texts with trees."""
    import sentencepiece

    lines = ["the old man sees a dog", "a dog sees the man", "the dog runs"] * 12
    write(folder / "text", lines)
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            *(f"--input={folder}/text --model_prefix={folder}/{side} --vocab_size=20",)
        )
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/source.model")
    names = ["</s>", "<unk>", *(pieces.id_to_piece(k) for k in range(3, 20)), "<pad>"]
    vocabulary = {name: k for k, name in enumerate(dict.fromkeys(names))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    kept = hf.MarianTokenizer(
        *(f"{folder}/source.model", f"{folder}/target.model", f"{folder}/vocab.json"),
        **{"source_lang": "en", "target_lang": "de"},
    )
    kept.save_pretrained(folder / "marian")
    ids = {"pad_token_id": len(vocabulary) - 1, "eos_token_id": 0, "vocab_size": len(vocabulary)}
    config = {**SEQ2SEQ, **ids, "decoder_start_token_id": ids["pad_token_id"], "encoder_layers": 3}
    hf.MarianMTModel(hf.MarianConfig(**config)).save_pretrained(folder / "marian")
    for name in ("train", "valid", "test"):
        blocks = []
        for line in lines:
            rows = [
                f"{k}\t{w}\t_\t_\t_\t_\t{k - 1}\tdep\t_\t_" for k, w in enumerate(line.split(), 1)
            ]
            blocks.append("\n".join([f"# text = {line}", *rows]) + "\n\n")
        (folder / f"{name}.conllu").write_text("".join(blocks))
        write(folder / f"{name}.de", lines)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("control", ["own", "chain"])
def test_the_script_of_the_page(tmp_path, monkeypatch, control):
    pytest.importorskip("accelerate")
    marian(tmp_path)
    page = (ROOT / "docs/transformers.md").read_text()
    [code] = re.findall(r"```python\n(from transformers import.*?)```", page, re.DOTALL)
    for old, new in (
        ('"Helsinki-NLP/opus-mt-en-de", "own"', f'"{tmp_path}/marian", "{control}"'),
        ("        seed=seed,", "        seed=seed, use_cpu=True, report_to=[],"),
    ):
        assert old in code
        code = code.replace(old, new)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {})
    assert len(lines_of(tmp_path / f"test.{control}.seed1.hyp")) == 36
    again = from_pretrained(hf.MarianMTModel, tmp_path / f"run.{control}.seed1")
    assert again.config.posattn["encoder"]["layers"] == [0, 1, 2]
