"""fairseq's Transformer encoder with configurable positions and attention mechanisms.

The layer and the loop over layers are reimplemented, because fairseq's versions pass only the
padding mask to a layer, and differ between releases. The parameters have the same names as in
fairseq, and are created in the same order.
"""

from typing import Any

import torch
from fairseq import utils
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules import LayerNorm
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    MultiheadSelfAttention,
)
from fairseq_posattn.core.positions import PositionShape, SourceTree, joined
from fairseq_posattn.core.positions.position import Nonlinear
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.beams import SENTENCES
from fairseq_posattn.fairseq_plugin.models.config import layer_numbers, wrapped
from fairseq_posattn.fairseq_plugin.models.cross_attention import (
    EMPTY,
    TREE,
    cross_specification,
    reordered,
)
from fairseq_posattn.fairseq_plugin.models.positions import by_name, positions_in_use
from fairseq_posattn.fairseq_plugin.models.stock_checkpoints import (
    LABELS,
    check_labels,
    digest,
    fit_state,
    is_superfluous,
)
from fairseq_posattn.trees.sentence import KINDS


class PosattnEncoderLayer(nn.Module):
    """A Transformer encoder layer with mechanisms in its self-attention."""

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
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the output, the attention weights and the sums for supervised heads.

        x: the input. Input and output have the shape (T, B, C).
        need_weights: whether to return the attention weights, of shape (B, H, T, T). Otherwise,
            they are None.

        The sums are those that `take_supervision` returns.
        """
        residual = x = self.self_attn.before(x, ctx)
        x = self.norm_before(x, self.self_attn_layer_norm)
        x, weights = self.self_attn(x, ctx, need_weights)
        supervision = self.self_attn.take_supervision()
        x = self.join(residual, x, self.self_attn_layer_norm)
        residual = x
        x = self.feed_forward(self.norm_before(x, self.final_layer_norm))
        return self.join(residual, x, self.final_layer_norm), weights, supervision

    def norm_before(self, x: Tensor, norm: nn.Module) -> Tensor:
        return norm(x) if self.normalize_before else x

    def join(self, residual: Tensor, x: Tensor, norm: nn.Module) -> Tensor:
        """Apply dropout, the residual connection and, in post-norm models, layer normalisation."""
        x = residual + self.dropout_module(x)
        return x if self.normalize_before else norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(x))))


class PosattnEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with configurable positions and attention mechanisms."""

    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        self.attention = AttentionSpecification(cfg.encoder_attention)
        self.cross = cross_specification(cfg)  # the decoder's cross-attention may read trees, too
        self.crossing = f", cross-attention '{self.cross}'" if self.cross.needs_tree else ""
        self.positions = positions_in_use(cfg, "encoder")
        labels = number_of_labels(cfg)
        shape = PositionShape(embed_tokens.embedding_dim, cfg.max_source_positions, **labels)
        self.positions.check(shape)
        if not cfg.encoder.layers_to_keep:  # a pruned model was checked before it was pruned
            self.attention.check(cfg.encoder.layers, attention_shape(cfg))
        self.numbers = layer_numbers(cfg.encoder)
        self.of_all_layers: dict[str, nn.Module] = {}  # filled by build_encoder_layer
        super().__init__(cfg, dictionary, embed_tokens, return_fc)
        self.dropout_module.module_name = "TransformerEncoder"  # for --retain-dropout-modules
        if not self.positions.sequence:
            self.embed_positions = None
        self.fuser = None
        depth = self.positions.tree_depth
        if self.positions.sequence and depth and depth.fuse == "nonlinear":
            self.fuser = Nonlinear(shape.width)
        self.added_positions = by_name(self.positions.build(shape))
        self.shared_mechanisms = nn.ModuleDict(self.of_all_layers)
        del self.of_all_layers
        if self.needs_labels:
            self.register_buffer(LABELS, digest(cfg.source_labels))
        # --encoder-layers-to-keep may have pruned the layer with the supervised head
        self.learns_from_trees = any(
            getattr(module, "learns_from_trees", False) for module in self.layers.modules()
        )

    @property
    def needs_tree(self) -> bool:
        """Return whether positions, self-attention or the decoder's cross-attention read trees."""
        specifications = (self.attention, self.positions, self.cross)
        return any(specification.needs_tree for specification in specifications)

    @property
    def needs_labels(self) -> set[str]:
        """Return the kinds of labels that the positions and the self-attention read."""
        return self.attention.needs_labels | self.positions.needs_labels

    def build_encoder_layer(self, cfg):
        number, shape = self.numbers.pop(0), attention_shape(cfg)
        mechanisms = self.attention.build(number, shape, self.of_all_layers)
        return wrapped(PosattnEncoderLayer(cfg, mechanisms), cfg)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        source_tree: Tensor | None = None,
        need_weights: bool = False,
    ):
        """Return the output of fairseq's encoder, with additional entries if requested.

        source_tree: the trees as a tensor for `SourceTree.of_batch`.
        need_weights: whether to return `attention_weights`, a list that contains the weights of
            each layer, of shape (B, H, T, T).

        If heads are trained on trees, `tree_supervision` contains the four sums of
        `Supervised.supervise`.
        """
        padding = src_tokens.eq(self.padding_idx)  # B T
        ctx = AttentionContext.from_padding(padding, self.tree_of(source_tree, ~padding))
        x, embedding = self.embed(src_tokens, token_embeddings, ctx)  # B T C
        if ctx.real is not None:
            x = x * ctx.real.unsqueeze(-1).type_as(x)
        x = x.transpose(0, 1)  # T B C
        states, weights, learnt = [x] if return_all_hiddens else [], [], []
        for layer in self.layers:
            x, of_heads, supervision = layer(x, ctx, need_weights)
            weights.append(of_heads)
            learnt += [] if supervision is None else [supervision]
            if return_all_hiddens:
                states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        asked_for: dict[str, Any] = {"attention_weights": weights} if need_weights else {}
        if self.learns_from_trees and ctx.tree is not None:
            # --encoder-layerdrop may have skipped all supervised heads, so that `learnt` is empty
            sums = [x.new_zeros(4, dtype=torch.float32), *learnt]
            asked_for["tree_supervision"] = torch.stack(sums).sum(dim=0)
        if self.cross.uses:
            asked_for[EMPTY] = [ctx.nothing_allowed]
        if self.cross.needs_tree:
            asked_for[TREE] = [ctx.tree]
        return {
            **asked_for,
            "encoder_out": [x],  # T B C
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedding],
            "encoder_states": states,
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding).sum(dim=1, keepdim=True, dtype=torch.int32)],
        }

    def tree_of(self, source_tree: Tensor | None, real: Tensor) -> SourceTree | None:
        """Return the trees of a batch, or None; raise an InputError if needed trees are missing."""
        learning = self.learns_from_trees and (self.training or source_tree is not None)
        if not self.needs_tree and not learning:
            return None
        if source_tree is None and not self.needs_tree:
            raise InputError(
                f"a head of this model learns from trees (attention '{self.attention}'), but the "
                "batch has none; train with --task structured_translation and --criterion "
                "tree_supervised_cross_entropy, on data with trees"
            )
        if source_tree is None:
            raise InputError(
                f"this model reads trees (positions '{self.positions}', attention "
                f"'{self.attention}'{self.crossing}), but the batch has none; "
                "use --task structured_translation"
            )
        if self.needs_labels and len(source_tree) < 4:
            raise InputError(
                f"this model reads word labels (positions '{self.positions}', attention "
                f"'{self.attention}'), but the trees of the batch have none; use batches from "
                "--task structured_translation"
            )
        return SourceTree.of_batch(source_tree, real)

    def reorder_encoder_out(self, encoder_out, new_order):
        """Reorder the output for the next step of beam search.

        All hypotheses of a sentence share the encoder output of that sentence. On a CPU, nothing is
        copied if each hypothesis is replaced by one of the same sentence, as in most steps. On a
        GPU, copying is faster than this check, which would require a synchronisation.
        """
        sentences = []
        if new_order.device.type == "cpu":
            rows = len(encoder_out["src_lengths"][0])
            [before] = encoder_out.get(SENTENCES) or [torch.arange(rows)]
            sentences = [before.index_select(0, new_order)]
            if torch.equal(before, sentences[0]):
                known = encoder_out.get(SENTENCES)
                return encoder_out if known else {**encoder_out, SENTENCES: sentences}
        found = super().reorder_encoder_out(encoder_out, new_order)
        found[SENTENCES] = sentences
        if TREE in encoder_out:
            found[TREE] = [reordered(tree, new_order) for tree in encoder_out[TREE]]
        if EMPTY in encoder_out:
            found[EMPTY] = encoder_out[EMPTY]
        return found

    def embed(
        self, src_tokens: Tensor, token_embeddings: Tensor | None, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor]:
        """Return word embeddings with positions and without positions, both of shape (B, T, C)."""
        if token_embeddings is None:
            token_embeddings = self.embed_tokens(src_tokens)
        x = embedding = self.embed_scale * token_embeddings
        position = self.position(src_tokens, ctx)
        if position is not None:
            x = x + position.type_as(x)
        for changing in self.added_positions.values():
            if changing.changes_input:
                x = changing.change(x, ctx)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x), embedding

    def position(self, src_tokens: Tensor, ctx: AttentionContext) -> Tensor | None:
        """Return absolute position vectors of shape (B, T, C), or None if there are none."""
        sequence = None if self.embed_positions is None else self.embed_positions(src_tokens)
        return joined(sequence, self.added_positions.values(), ctx, self.fuser)

    def upgrade_state_dict_named(self, state_dict, name):
        """Add the parameters that a stock checkpoint lacks, for --finetune-from-model.

        If a checkpoint contains some of these parameters, it was trained with a different
        specification. In this case nothing is added, and fairseq reports the missing parameters.
        """
        check_labels(state_dict, self, name)
        fit_state(state_dict, self, name, bool(self.cfg.encoder.layers_to_keep))
        for key in [key for key in state_dict if is_superfluous(key, name)]:
            del state_dict[key]
        return state_dict


def attention_shape(cfg) -> AttentionShape:
    heads, width = cfg.encoder.attention_heads, cfg.encoder.embed_dim
    longest, labels = cfg.max_source_positions, number_of_labels(cfg)
    return AttentionShape(heads, width // heads, longest, labels["relations"], labels["tags"])


def number_of_labels(cfg) -> dict[str, int]:
    """Return the number of labels of each kind, which is 0 if the model reads no labels."""
    return {kind: getattr(cfg, f"source_{kind}", 0) for kind in KINDS}
