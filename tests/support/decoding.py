"""Decode step by step, as a beam search does, and in one pass."""

import torch

from support.in_process import batch


def encoded(task, model, sentences):
    """Return what the encoder makes of these sentences, of which some have padding on the left."""
    fields = batch(task, sentences=sentences)["net_input"]
    assert fields["src_tokens"][:, 0].eq(task.source_dictionary.pad()).any()
    fields.pop("prev_output_tokens")
    return model.encoder(**fields)


def targets(task, length=12, seed=3):
    """Return random inputs of the decoder; the second and third end early, padding on the right."""
    torch.manual_seed(seed)
    pad, size = task.target_dictionary.pad(), len(task.target_dictionary)
    tokens = torch.randint(task.target_dictionary.nspecial, size, (4, length))
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
