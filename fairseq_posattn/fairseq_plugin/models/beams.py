"""Attention of fairseq's decoder in beam search on a CPU, without copying keys and values.

In each step, stock fairseq copies the keys and values of all hypotheses that survive. Here, the
hypotheses of a sentence share one cache, to which each step appends their keys and values. The
cache is never reordered; instead, a mask excludes keys that do not belong to a hypothesis. The keys
and values of the cross-attention are computed once per sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_posattn.fairseq_plugin.models.fast_linear import Joined

BEAMS = "beams"  # the key of the incremental state
SENTENCES = "sentences"  # key of encoder_out: the index of the sentence of each row
FIRST_CAPACITY = 32  # decoding steps


class Beams:
    """The hypotheses of a batch, `size` for each sentence.

    slots: (R, T), the index within its sentence of the hypothesis that computed each key
    bias: (B, 1, size, T * size), 0 for keys that a hypothesis attends to, otherwise -inf; or None
    source_bias: (B, 1, 1, S), the same for the source; None if no source is padded
    kept: the numbers of the sentences that remained after the last reordering, or None for all
    """

    def __init__(self, size: int, rows: int):
        self.size = size
        self.slots = torch.empty(rows, 0, dtype=torch.long)
        self.own = torch.arange(size)
        self.bias: Tensor | None = None
        self.source_bias: Tensor | None = None
        self.kept: Tensor | None = None

    @classmethod
    def of(cls, sentences: Tensor) -> Beams | None:
        """Return the beams of a batch, or None if sentences have different numbers of rows.

        sentences: the index of the sentence of each row
        """
        size = int(sentences.eq(sentences[0]).sum())
        if len(sentences) % size:
            return None
        of_first = sentences[::size].repeat_interleave(size)
        return cls(size, len(sentences)) if torch.equal(sentences, of_first) else None

    def step(self, target_padding: Tensor, source_padding: Tensor) -> None:
        """Prepare the masks of the next step, given padding masks of shape (R, T) and (R, S)."""
        rows, size = len(self.slots), self.size
        own = self.own.repeat(rows // size).unsqueeze(1)
        self.slots = torch.cat([self.slots, own], dim=1)
        foreign = self.slots.unsqueeze(-1).ne(self.own)  # R T size
        if target_padding.any():
            foreign |= target_padding.unsqueeze(-1)
        self.bias = None
        if size > 1 or target_padding.any():
            self.bias = bias_from(foreign.view(rows // size, 1, size, -1))
        if self.source_bias is None and source_padding.any():
            self.source_bias = bias_from(source_padding[::size, None, None])

    def reorder(self, order: Tensor) -> None:
        """Replace each hypothesis by the hypothesis of the same sentence with the given index."""
        sentences = (order // self.size).view(-1, self.size)
        if not torch.equal(sentences, sentences[:, :1].expand_as(sentences)):
            raise ValueError("beam search mixed the hypotheses of several sentences")
        kept, all_of_them = sentences[:, 0], torch.arange(len(self.slots) // self.size)
        self.kept = None if torch.equal(kept, all_of_them) else kept
        self.slots = self.slots.index_select(0, order)
        if self.kept is not None and self.source_bias is not None:
            self.source_bias = self.source_bias.index_select(0, self.kept)


def bias_from(forbidden: Tensor) -> Tensor:
    return torch.zeros(forbidden.shape).masked_fill_(forbidden, float("-inf"))


class BeamAttention(MultiheadAttention):
    """Multi-head attention whose hypotheses share keys and values."""

    joined: Joined | None = None

    def beams(self, incremental_state) -> Beams | None:
        return None if incremental_state is None else incremental_state.get(BEAMS)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the output, of shape (1, R, C), and the weights, of shape (B, H, size, K).

        q: (B, H, size, D); k, v: (B, H, K, D)
        """
        scores = (q * self.scaling) @ k.transpose(-2, -1)
        weights = torch.softmax(scores if bias is None else scores.add_(bias), dim=-1)
        out = self.dropout_module(weights) @ v
        return self.out_proj(out.transpose(1, 2).reshape(1, -1, self.embed_dim)), weights

    def split(self, x: Tensor, rows: int) -> Tensor:
        """Reshape x to (sentences, H, rows, D), given the number of rows per sentence."""
        return x.view(-1, rows, self.num_heads, self.head_dim).transpose(1, 2)

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Remove finished sentences from the cache."""
        beams = self.beams(incremental_state)
        if beams is None:
            return super().reorder_incremental_state(incremental_state, new_order)
        if beams.kept is not None and (cache := self._get_input_buffer(incremental_state)):
            kept = {name: x.index_select(0, beams.kept) for name, x in cache.items()}
            self._set_input_buffer(incremental_state, kept)
        return incremental_state


class BeamSelfAttention(BeamAttention):
    """Self-attention whose hypotheses share keys and values."""

    def forward(self, query, key=None, value=None, *args, incremental_state=None, **options):
        beams = self.beams(incremental_state)
        if beams is None:
            options["incremental_state"] = incremental_state
            return super().forward(query, key, value, *args, **options)
        q, k, v = (self.split(x, beams.size) for x in self.project(query))
        cache = self._get_input_buffer(incremental_state)
        end = beams.slots.size(1) * beams.size
        start = end - beams.size
        if not cache:
            shape = (*k.shape[:2], FIRST_CAPACITY * beams.size, k.size(3))
            cache = {"prev_key": k.new_empty(shape), "prev_value": v.new_empty(shape)}
        elif start == cache["prev_key"].size(2):
            cache = {name: torch.cat([x, torch.empty_like(x)], 2) for name, x in cache.items()}
        keys, values = cache["prev_key"], cache["prev_value"]
        keys[:, :, start:end] = k
        values[:, :, start:end] = v
        self._set_input_buffer(incremental_state, cache)
        return self.attend(q, keys[:, :, :end], values[:, :, :end], beams.bias)[0], None

    def project(self, query: Tensor) -> Sequence[Tensor]:
        """Return queries, keys and values; one product computes all three."""
        if self.joined is None:
            self.joined = Joined(self, ("q_proj", "k_proj", "v_proj"))
        return self.joined(query)


class BeamCrossAttention(BeamAttention):
    """Cross-attention whose keys and values are computed once per sentence."""

    def forward(
        self,
        query,
        key,
        value,
        *args,
        incremental_state=None,
        need_weights=True,
        need_head_weights=False,
        **options,
    ):
        beams = self.beams(incremental_state)
        if beams is None:
            options |= {"need_weights": need_weights, "need_head_weights": need_head_weights}
            options["incremental_state"] = incremental_state
            return super().forward(query, key, value, *args, **options)
        cache = self._get_input_buffer(incremental_state)
        if not cache:
            source = key[:, :: beams.size].transpose(0, 1)  # B S C
            projected = {"prev_key": self.k_proj(source), "prev_value": self.v_proj(source)}
            rows = source.size(1)
            cache = {name: self.split(x, rows).contiguous() for name, x in projected.items()}
            self._set_input_buffer(incremental_state, cache)
        q = self.split(self.q_proj(query), beams.size)
        out, weights = self.attend(q, cache["prev_key"], cache["prev_value"], beams.source_bias)
        if not (need_weights or need_head_weights):
            return out, None
        weights = weights.transpose(1, 2).flatten(0, 1).unsqueeze(2)  # R H 1 S
        return out, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)


def share_keys(decoder: nn.Module) -> None:
    """Convert fairseq's attention modules, except those with unusual options."""
    for module in decoder.modules():
        if type(module) is not MultiheadAttention or module.bias_k is not None:
            continue
        if module.add_zero_attn or getattr(module, "use_xformers", False):
            continue
        if module.self_attention:
            module.__class__ = BeamSelfAttention
        elif module.encoder_decoder_attention:
            module.__class__ = BeamCrossAttention
