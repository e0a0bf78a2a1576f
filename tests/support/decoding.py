"""Decode step by step, as a beam search does, and in one pass; check what all decoders promise."""

import math
import re
import shutil

import torch
from fairseq import checkpoint_utils

from fairseq_posattn.fairseq_plugin.structured_translation import ignore_trees
from support.in_process import batch, generate, hypotheses_and_scores, train

SIZES = ("--decoder-layers", "2", "--max-target-positions", "320")
STOCK = ("--arch", "transformer", *SIZES)
SENTENCES = (0, 3, 7, 9)
SHORT = 12  # the number of steps; the longest source has fewer pieces
# What fairseq's beam search does: hypotheses change places within their sentence, or finished
# sentences leave the batch. It never lets sentences change places in a batch of the same size.
ORDERS = {(0, 3, 3, 3): [0, 3, 1, 1], SENTENCES: [3, 0, 1], (9, 7, 7, 0): [2, 1, 0]}


def with_option(option: str, use: str, *more) -> tuple:
    """Return the command line of a model whose decoder has an option, named as in the model."""
    return f"--{option.replace('_', '-')}", use, *SIZES, *more


def encoded(task, model, sentences):
    """Return what the encoder makes of these sentences, of which some have padding on the left."""
    fields = batch(task, sentences=sentences)["net_input"]
    assert fields["src_tokens"][:, 0].eq(task.source_dictionary.pad()).any()
    fields.pop("prev_output_tokens")
    return model.encoder(**fields)


def with_brackets(data, folder):
    """Return a copy of data in whose dictionary two frequent pieces of the target are brackets."""
    copy = shutil.copytree(data, folder / "data")
    for path in copy.glob("dict.*.txt"):
        text = re.sub(r"^ha ", "( ", path.read_text("utf-8"), flags=re.M)
        text = re.sub(r"^wi ", ") ", text, flags=re.M)
        path.write_text(text, "utf-8")
    return copy


def targets(task, length=12, seed=3):
    """Return random inputs of the decoder; the second and third end early, padding on the right.

    Where the dictionary has brackets, half of all pieces are."""
    torch.manual_seed(seed)
    pad, size = task.target_dictionary.pad(), len(task.target_dictionary)
    tokens = torch.randint(task.target_dictionary.nspecial, size, (4, length))
    for rest, bracket in enumerate("()"):
        number = task.target_dictionary.index(bracket)
        if number != task.target_dictionary.unk():
            tokens[tokens % 4 == rest] = number
    tokens[:, 0] = task.target_dictionary.eos()
    tokens[1, length // 3 :] = tokens[2, length - 2 :] = pad
    return tokens


def steps(model, tokens, state, order):
    """Return the logits of single steps, those of one pass over the whole, and its tokens.

    Half-way the hypotheses come into another order, as in a beam search.
    """
    logits, memory = [], {}
    for step in range(tokens.size(1)):
        if step == tokens.size(1) // 2:
            tokens, logits = tokens[order], [one[order] for one in logits]
            state = model.encoder.reorder_encoder_out(state, order)
            model.decoder.reorder_incremental_state_scripting(memory, order)
        now = tokens[:, : step + 1]
        logits.append(model.decoder(now, encoder_out=state, incremental_state=memory)[0][:, 0])
    return torch.stack(logits, dim=1), model.decoder(tokens, encoder_out=state)[0], tokens


def assert_steps_equal_the_whole(task, model, tokens, orders=ORDERS):
    """Half-way rows change places, with their sources, trees and cached keys."""
    for sentences, order in orders.items():
        with torch.no_grad():
            state = encoded(task, model.eval(), sentences)
            single, whole, kept = steps(model, tokens, state, torch.tensor(order))
        real = kept != task.target_dictionary.pad()
        torch.testing.assert_close(single[real], whole[real], atol=1e-5, rtol=0)


def assert_causal(task, model, length):
    """Later words of the target change nothing before them."""
    tokens, others, cut = targets(task, length), targets(task, length, seed=4), 2 * length // 3
    others[:, :cut] = tokens[:, :cut]
    others[0, cut + 1 :] = task.target_dictionary.pad()
    with torch.no_grad():
        state = encoded(task, model, SENTENCES)
        before, after = (model.decoder(x, encoder_out=state)[0] for x in (tokens, others))
    torch.testing.assert_close(after[:, :cut], before[:, :cut], atol=1e-5, rtol=0)
    assert (after[3, cut] - before[3, cut]).abs().max() > 1e-3  # the last one that has an effect


def shaken(model):
    """Move the mechanisms away from their start, where most of them do nothing."""
    torch.manual_seed(5)
    for name, parameter in model.named_parameters():
        if ".mechanisms." in name:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def states(*paths) -> list[dict]:
    """Return the parameters in each checkpoint."""
    return [checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"] for path in paths]


def scored_again(paths, task, sample, hypotheses):
    """Return the mean log2 probability of each hypothesis, in one pass over its words."""
    pad, end = task.target_dictionary.pad(), task.target_dictionary.eos()
    goal = torch.nn.utils.rnn.pad_sequence(hypotheses, True, pad)
    before = goal.roll(1, dims=1).masked_fill(goal == pad, pad)
    before[:, 0] = end
    fields = {**sample["net_input"], "prev_output_tokens": before}
    models, _ = checkpoint_utils.load_model_ensemble(paths, task=task)
    for model in models:
        if not hasattr(model.encoder, "needs_tree"):
            ignore_trees(model)
    with torch.no_grad():
        each = [torch.log_softmax(model.eval()(**fields)[0], -1) for model in models]
    scores = torch.logsumexp(torch.stack(each), 0) - math.log(len(each))
    scores = scores.gather(-1, goal[..., None])[..., 0].masked_fill(goal == pad, 0)
    return scores.sum(1) / (goal != pad).sum(1) / math.log(2)


def move(checkpoint, part: str) -> None:
    """Add random numbers to the parameters in a checkpoint whose names match `part`."""
    saved = torch.load(checkpoint, weights_only=False)
    torch.manual_seed(5)
    for name, value in saved["model"].items():
        if re.search(part, name):
            value.add_(0.3 * torch.randn_like(value))
    torch.save(saved, checkpoint)


def check_resumed(data, folder, options) -> None:
    """A training in two parts ends as a whole one, and so does activation checkpointing."""
    train(data, folder / "whole", *options)
    train(data, folder / "parts", *options, "--max-update", "2")
    train(data, folder / "parts", *options)
    train(data, folder / "again", *options, "--checkpoint-activations")
    folders = (folder / name for name in ("whole", "parts", "again"))
    whole, parts, again = states(*(folder / "checkpoint_last.pt" for folder in folders))
    torch.testing.assert_close(parts, whole, atol=0, rtol=0)
    # Stock, too, sums in another order with --checkpoint-activations. Adam divides a gradient by
    # its size, so an element whose gradient is near 0 may move by much of the learning rate.
    for name, value in again.items():
        moved = (value - whole[name]).float().abs()
        assert moved.mean() < 1e-5, name
        assert moved.max() < 5e-3, name


def check_kept_layers(checkpoint, task, choices) -> None:
    """Each layer that is kept has its own parameters, under its new number."""
    (saved,) = states(checkpoint)
    for kept in choices:
        (model,), _ = checkpoint_utils.load_model_ensemble(
            [str(checkpoint)],
            arg_overrides={"decoder_layers_to_keep": kept, "encoder_layers_to_keep": "0,1"},
            task=task,
        )
        loaded = model.decoder.layers.state_dict()
        for place, number in enumerate(kept.split(",")):
            start, own = f"decoder.layers.{number}.", f"{place}."
            expected = {own + k[len(start) :]: v for k, v in saved.items() if k.startswith(start)}
            assert expected.keys() == {key for key in loaded if key.startswith(own)}
            assert all(torch.equal(loaded[key], value) for key, value in expected.items())


def check_printed_scores(data, paths, task, options, given: int, different: int) -> None:
    """fairseq-generate prints the scores that one pass over each translation gives.

    given: how many pieces of the target are prescribed. different: more translations than this
    must differ from each other.
    """
    chosen = (*options, "--max-len-b", "12", "--batch-size", "30")
    printed = hypotheses_and_scores(generate(data, ":".join(paths), *chosen).output)
    sample = batch(task, "test", range(60))
    texts, scores = zip(*(printed[k] for k in sample["id"].tolist()), strict=True)
    words = task.target_dictionary
    hypotheses = [words.encode_line(text, add_if_not_exist=False).long() for text in texts]
    assert len(printed) == 60 and len(set(texts)) > different, len(set(texts))
    again = scored_again(paths, task, sample, hypotheses)
    torch.testing.assert_close(again, torch.tensor(list(map(float, scores))), atol=1e-4, rtol=0)
    for hypothesis, target in zip(hypotheses, sample["target"], strict=True):
        wanted = target[target != words.pad()][:given]
        assert torch.equal(hypothesis[: len(wanted)], wanted)
