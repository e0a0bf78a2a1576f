"""Decode step by step, as a beam search does, and in one pass."""

import torch


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
