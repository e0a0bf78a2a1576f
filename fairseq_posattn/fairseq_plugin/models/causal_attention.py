"""The self-attention of fairseq's decoder, with mechanisms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor

from fairseq_posattn.core.attention import AttentionContext, MultiheadSelfAttention


@with_incremental_state
class CausalSelfAttention(MultiheadSelfAttention):
    """Causal self-attention with mechanisms, for fairseq's decoder layer."""

    get_incremental_state: Callable  # the decorator adds both methods
    set_incremental_state: Callable

    def __init__(self, cfg, mechanisms, target):
        self.target = target
        heads, width = cfg.decoder.attention_heads, cfg.decoder.embed_dim
        dropout = FairseqDropout(cfg.attention_dropout, module_name="MultiheadAttention")
        super().__init__(width, heads, mechanisms, dropout)
        self.num_heads, self.head_dim = heads, width // heads

    def forward(  # type: ignore[override]  # fairseq's decoder layer passes these arguments
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        incremental_state=None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query`, of shape (T, B, C), to itself and to earlier decoding steps.

        Return the output, of shape (T, B, C), and the attention weights, or None if they are not
        requested. The weights are averaged over the heads and have the shape (B, T, S). With
        `need_head_weights`, they are not averaged and have the shape (H, B, T, S).
        """
        q, k, v = self.project(query)  # B H T D
        padding = key_padding_mask
        before = self._get_input_buffer(incremental_state)
        if "prev_key" in before:
            k = torch.cat([before["prev_key"], k], dim=2)
            v = torch.cat([before["prev_value"], v], dim=2)
            padding = joined_padding(before.get("prev_key_padding_mask"), padding, k)
        state = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": padding}
        self._set_input_buffer(incremental_state, state)
        causal = attn_mask is not None or incremental_state is not None
        ctx = AttentionContext(
            *(k.size(2), k.device, None if padding is None else ~padding, None, q.size(2), causal),
            brackets=self.target.brackets,
        )
        ctx.nothing_allowed = False  # each target begins with a real token, </s>
        out, weights = self.attend(query, q, k, v, ctx, need_weights or need_head_weights)
        if weights is not None:
            weights = weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)
        return out, weights

    def _get_input_buffer(self, incremental_state) -> dict:
        return self.get_incremental_state(incremental_state, "attn_state") or {}

    def _set_input_buffer(self, incremental_state, buffer: dict):
        return self.set_incremental_state(incremental_state, "attn_state", buffer)

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Reorder the cached keys and values for the next step of beam search."""
        buffer = self._get_input_buffer(incremental_state)
        if buffer:
            chosen = {
                key: None if value is None else value.index_select(0, new_order)
                for key, value in buffer.items()
            }
            self._set_input_buffer(incremental_state, chosen)
        return incremental_state


def joined_padding(before: Tensor | None, now: Tensor | None, keys: Tensor) -> Tensor | None:
    """Concatenate the padding masks of earlier steps and of this step into a mask of shape (B, S).

    None means that there is no padding.
    """
    if before is None and now is None:
        return None
    padding = keys.new_zeros(keys.size(0), keys.size(2)).bool()
    if before is not None:
        padding[:, : before.size(1)] = before
    if now is not None:
        padding[:, -now.size(1) :] = now
    return padding
