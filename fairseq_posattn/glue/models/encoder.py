"""fairseq's Transformer encoder around the attention core.

The layer and the loop over the layers are short ones of our own: fairseq's hand a layer nothing
but the padding mask, and differ between its releases. Parameter names and the order in which
parameters are made are fairseq's.
"""

from __future__ import annotations

import logging
from argparse import Namespace

import torch
from fairseq import utils
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules import LayerNorm
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    MultiheadSelfAttention,
)
from fairseq_posattn.core.positions import SourceTree, sinusoid
from fairseq_posattn.core.positions.fusers import FUSERS
from fairseq_posattn.core.positions.registry import PositionSpecification
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError

logger = logging.getLogger(__name__)

DUPLICATES = {
    f"{part}_{kind}"
    for part in ("in_proj", "out_proj", "fc1", "fc2")
    for kind in ("weight", "bias")
}


class PosattnEncoderLayer(nn.Module):
    """Self-attention with the layer's mechanisms, then feed-forward. Layout T B C."""

    def __init__(self, cfg, mechanisms):
        super().__init__()
        width = cfg.encoder.embed_dim
        self.normalize_before = cfg.encoder.normalize_before
        self.self_attn = MultiheadSelfAttention(
            width,
            cfg.encoder.attention_heads,
            mechanisms,
            FairseqDropout(cfg.attention_dropout, module_name="MultiheadAttention"),
        )
        self.self_attn_layer_norm = LayerNorm(width, export=cfg.export)
        self.dropout_module = FairseqDropout(cfg.dropout, module_name="TransformerEncoderLayerBase")
        self.activation_fn = utils.get_activation_fn(cfg.activation_fn)
        self.activation_dropout_module = FairseqDropout(
            float(cfg.activation_dropout or cfg.relu_dropout or 0),
            module_name="TransformerEncoderLayerBase",
        )
        self.fc1 = nn.Linear(width, cfg.encoder.ffn_embed_dim)
        self.fc2 = nn.Linear(cfg.encoder.ffn_embed_dim, width)
        self.final_layer_norm = LayerNorm(width, export=cfg.export)

    def forward(
        self, x: Tensor, ctx: AttentionContext, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """T B C -> T B C and, if asked for, the weights of each head B H T T."""
        x = self.self_attn.before(x, ctx)
        residual = x
        x, weights = self.self_attn(
            self.norm_before(x, self.self_attn_layer_norm), ctx, need_weights
        )
        x = self.join(residual, x, self.self_attn_layer_norm)
        residual = x
        x = self.feed_forward(self.norm_before(x, self.final_layer_norm))
        return self.join(residual, x, self.final_layer_norm), weights

    def norm_before(self, x: Tensor, norm: nn.Module) -> Tensor:
        return norm(x) if self.normalize_before else x

    def join(self, residual: Tensor, x: Tensor, norm: nn.Module) -> Tensor:
        x = residual + self.dropout_module(x)
        return x if self.normalize_before else norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(x))))


class PosattnEncoder(TransformerEncoderBase):
    """The stock encoder with chosen positions and attention mechanisms."""

    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        self.attention = AttentionSpecification(cfg.encoder_attention)
        self.positions = PositionSpecification(cfg.encoder_positions)
        if not cfg.encoder.layers_to_keep:  # else it was checked when all layers were there
            self.attention.check(cfg.encoder.layers, attention_shape(cfg))
        self.numbers = layer_numbers(cfg.encoder)
        super().__init__(cfg, dictionary, embed_tokens, return_fc)
        self.dropout_module.module_name = "TransformerEncoder"  # for --retain-dropout-modules
        self.check_positions(cfg)
        self.fuser = None
        if self.positions.sequence and self.positions.tree_depth:
            self.fuser = FUSERS[self.positions.tree_depth.fuse](embed_tokens.embedding_dim)

    def check_positions(self, cfg) -> None:
        if not self.positions.sequence:
            self.embed_positions = None
        elif cfg.no_token_positional_embeddings and self.positions.needs_tree:
            raise SpecificationError(
                f"--no-token-positional-embeddings contradicts '{self.positions}': "
                "for depths alone use --encoder-positions tree_depth"
            )

    @property
    def needs_tree(self) -> bool:
        return self.attention.needs_tree or self.positions.needs_tree

    def build_encoder_layer(self, cfg):
        mechanisms = self.attention.build(self.numbers.pop(0), attention_shape(cfg))
        layer = PosattnEncoderLayer(cfg, mechanisms)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        # as fairseq: under checkpointing FSDP wraps every layer, whatever its size
        smallest = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        return fsdp_wrap(layer, min_num_params=smallest)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        source_tree: Tensor | None = None,
        need_weights: bool = False,
    ):
        """As fairseq's encoder; source_tree: see `SourceTree.of_batch`, for models with trees.
        need_weights adds `attention_weights`: for each layer the weights of each head, B H T T."""
        padding = src_tokens.eq(self.padding_idx)  # B T
        real = ~padding if padding.any() else None
        tree = self.tree_of(source_tree, ~padding)
        x, embedding = self.embed(src_tokens, token_embeddings, tree)  # B T C
        if real is not None:
            x = x * real.unsqueeze(-1).type_as(x)
        x = x.transpose(0, 1)  # T B C
        ctx = AttentionContext(src_tokens.size(1), src_tokens.device, real, tree)
        states, weights = [x] if return_all_hiddens else [], []
        for layer in self.layers:
            x, of_heads = layer(x, ctx, need_weights)
            weights.append(of_heads)
            if return_all_hiddens:
                states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        lengths = (~padding).sum(dim=1, dtype=torch.int32)
        asked_for = {"attention_weights": weights} if need_weights else {}
        return {
            **asked_for,
            "encoder_out": [x],  # T B C
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedding],
            "encoder_states": states,
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [lengths.reshape(-1, 1)],
        }

    def tree_of(self, source_tree: Tensor | None, real: Tensor) -> SourceTree | None:
        if not self.needs_tree:
            return None
        if source_tree is None:
            raise InputError(
                f"this model reads trees (positions '{self.positions}', attention "
                f"'{self.attention}') but the batch has none: use --task structured_translation"
            )
        return SourceTree.of_batch(source_tree, real)

    def embed(
        self, src_tokens: Tensor, token_embeddings: Tensor | None, tree: SourceTree | None
    ) -> tuple[Tensor, Tensor]:
        """Scaled word embeddings with the positions, and without them: B T C each."""
        if token_embeddings is None:
            token_embeddings = self.embed_tokens(src_tokens)
        x = embedding = self.embed_scale * token_embeddings
        position = self.position(src_tokens, tree)
        if position is not None:
            x = x + position.type_as(x)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x), embedding

    def position(self, src_tokens: Tensor, tree: SourceTree | None) -> Tensor | None:
        """B T C, or None where the encoder has no absolute positions."""
        sequence = None if self.embed_positions is None else self.embed_positions(src_tokens)
        if not self.positions.needs_tree:
            return sequence
        assert tree is not None  # `tree_of` refuses a batch without trees
        depth = sinusoid(tree.depths, self.embed_tokens.embedding_dim)
        if self.fuser is None or sequence is None:
            return depth
        return self.fuser(sequence, depth.type_as(sequence))

    def upgrade_state_dict_named(self, state_dict, name):
        """Take what a stock checkpoint lacks from this model, for --finetune-from-model. Where some
        of it is there, the checkpoint is one of another specification: fairseq refuses it."""
        if not self.cfg.encoder.layers_to_keep:  # else the checkpoint counts the layers otherwise
            fill_in(state_dict, self, name)
        for key in [key for key in state_dict if is_superfluous(key, name)]:
            del state_dict[key]
        return state_dict


def attention_shape(cfg) -> AttentionShape:
    heads, width = cfg.encoder.attention_heads, cfg.encoder.embed_dim
    return AttentionShape(heads, width // heads, cfg.max_source_positions)


def layer_numbers(side) -> list[int]:
    """The layers as the specification counts them, also where a checkpoint is pruned; side: the
    configuration of the encoder or decoder."""
    keep = side.layers_to_keep
    return sorted(map(int, keep.split(","))) if keep else list(range(side.layers))


def fill_in(state_dict: dict, module: nn.Module, name: str) -> None:
    """Parameters that mechanisms add and a checkpoint has none of, from the module itself."""
    added = {
        f"{name}.{key}": value
        for key, value in module.state_dict().items()
        if key.startswith("fuser.") or ".self_attn.mechanisms." in key
    }
    if added and not added.keys() & state_dict.keys():
        logger.warning("not in the checkpoint, so they start anew: %s", sorted(added))
        state_dict.update(added)


def is_superfluous(key: str, encoder: str) -> bool:
    """fairseq 0.12.2 stores the matrices of its encoder layers a second time, for a fast path, and
    a number with its positions, which this encoder may not have."""
    duplicate = key.startswith(f"{encoder}.layers.") and key.rsplit(".", 1)[-1] in DUPLICATES
    return duplicate or key == f"{encoder}.embed_positions._float_tensor"


def plain_namespace(cfg) -> Namespace:
    """A dataclass, DictConfig or Namespace as a Namespace that may be changed."""
    items = cfg.items() if hasattr(cfg, "items") else vars(cfg).items()
    return Namespace(**dict(items))
