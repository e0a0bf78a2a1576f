"""Convert a trained model to a CTranslate2 model specification.

Scaling factors of queries, keys and values are folded into the projection weights. An error is
raised if CTranslate2 does not support a part of the model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.model import Loaded
from fairseq_posattn.integrations.exported import PADDING, import_ctranslate2

Array = NDArray[np.float32]
ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_accurate": "GELUTanh",
    "gelu_fast": "GELUTanh",
    "swish": "SWISH",
}
# fairseq options that change the computation of a layer in ways that CTranslate2 does not support
NOT_THERE = (
    *("scale_fc", "scale_attn", "scale_heads", "scale_resids"),
    *("cross_self_attention", "no_cross_attention", "base_layers"),
)
ALIBI = "alibi"
KNOWN = "relative, t5_bias, rope, temperature and tree_supervised, and alibi in a decoder"


class Refused(InputError):
    """Raised if CTranslate2 does not support a part of a model."""

    def __init__(self, what: str, instead: str):
        super().__init__(f"CTranslate2 does not support {what}; {instead}")


class Converter:
    """Builds the CTranslate2 specification of a loaded model.

    taken: the ids of all parameters exported so far. `specification` raises an error if a parameter
        of the model is not among them.
    """

    def __init__(self, loaded: Loaded):
        self.model, self.task = loaded.model, loaded.task
        self.cfg = self.model.cfg
        self.specs = import_ctranslate2().specs
        self.taken: set[int] = set()

    def specification(self) -> Any:
        """Return the specification with all weights and vocabularies, ready to be saved."""
        self.refuse()
        encoder, decoder = self.encoder(), self.decoder()
        spec = self.specs.TransformerSpec(encoder, decoder)
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in self.taken:
                raise Refused(f"the parameter {name}", "export a model without it")
        spec.register_source_vocabulary(vocabulary(self.task.source_dictionary))
        spec.register_target_vocabulary(vocabulary(self.task.target_dictionary))
        spec.config.add_source_eos = True
        spec.config.decoder_start_token = spec.config.eos_token
        return spec

    def refuse(self) -> None:
        """Raise Refused if CTranslate2 does not support a part of the model."""
        encoder, decoder = self.model.encoder, self.model.decoder
        if getattr(encoder, "needs_tree", False):
            named = [str(one) for one in (encoder.positions, encoder.attention, encoder.cross)]
            raise Refused(
                f"models that read trees ({', '.join(filter(None, named))})",
                "use tree_supervised (trees only in training)",
            )
        for side, half in (("encoder", encoder), ("decoder", decoder)):
            positions = str(getattr(half, "positions", "sequence"))  # stock fairseq: no attribute
            if positions not in ("sequence", "none"):
                raise Refused(f"--{side}-positions '{positions}'", "train with 'sequence'")
        for name in NOT_THERE:
            if getattr(self.cfg, name, False):
                raise Refused(f"--{name.replace('_', '-')}", "train without it")
        if min(self.model.max_positions()) < 2:
            raise Refused("models with a single position", "train with larger --max-*-positions")
        if decoder.adaptive_softmax is not None:
            raise Refused("--adaptive-softmax-cutoff", "train without it")
        if self.cfg.activation_fn not in ACTIVATIONS:
            raise Refused(
                f"--activation-fn {self.cfg.activation_fn}",
                f"train with one of {', '.join(ACTIVATIONS)}",
            )

    def take(self, parameter: Tensor) -> Array:
        """Return a parameter as a float32 array, and mark it as exported."""
        self.taken.add(id(parameter))
        return parameter.detach().float().cpu().numpy()

    # encoder and decoder

    def encoder(self) -> Any:
        half = self.model.encoder
        spec = self.specs.TransformerEncoderSpec(**self.shape(half, self.cfg.encoder))
        self.relate(spec, half, "encoder")
        self.input(spec, half, self.cfg.max_source_positions, spec.embeddings[0])
        for of_layer, layer in zip(spec.layer, half.layers, strict=True):
            self.attention(of_layer.self_attention, layer.self_attn, layer.self_attn_layer_norm)
            self.feed_forward(of_layer.ffn, layer)
        return spec

    def decoder(self) -> Any:
        half = self.model.decoder
        spec = self.specs.TransformerDecoderSpec(
            **self.shape(half, self.cfg.decoder),
            alibi=ALIBI in mechanisms_of(half.layers[0].self_attn),
            project_in_out=half.project_in_dim is not None,
        )
        self.relate(spec, half, "decoder")
        self.input(spec, half, self.cfg.max_target_positions, spec.embeddings)
        for of_layer, layer in zip(spec.layer, half.layers, strict=True):
            self.attention(of_layer.self_attention, layer.self_attn, layer.self_attn_layer_norm)
            norm = layer.encoder_attn_layer_norm
            self.attention(of_layer.attention, layer.encoder_attn, norm, to_source=True)
            self.feed_forward(of_layer.ffn, layer)
        self.linear(spec.projection, half.output_projection)
        if half.project_in_dim is not None:
            self.linear(spec.project_in, half.project_in_dim)
            self.linear(spec.project_out, half.project_out_dim)
        return spec

    def shape(self, half: Any, options: Any) -> dict[str, Any]:
        activation = getattr(self.specs.common_spec.Activation, ACTIVATIONS[self.cfg.activation_fn])
        return {
            "num_layers": len(half.layers),
            "num_heads": options.attention_heads,
            "pre_norm": options.normalize_before,
            "no_final_norm": half.layer_norm is None,
            "activation": activation,
            "layernorm_embedding": half.layernorm_embedding is not None,
        }

    def input(self, spec: Any, half: Any, longest: int, embeddings: Any) -> None:
        """Fill in the embeddings, positions and layer norms of the encoder or decoder."""
        embeddings.weight = self.take(half.embed_tokens.weight)
        spec.scale_embeddings = float(half.embed_scale)
        if hasattr(spec, "position_encodings"):
            width = half.embed_tokens.embedding_dim
            spec.position_encodings.encodings = np.zeros((longest, width), np.float32)
            if half.embed_positions is not None:
                spec.position_encodings.encodings = self.positions(half.embed_positions, longest)
        if half.layer_norm is not None:
            self.norm(spec.layer_norm, half.layer_norm)
        if half.layernorm_embedding is not None:
            self.norm(spec.layernorm_embedding, half.layernorm_embedding)

    def positions(self, table: Any, longest: int) -> Array:
        """Return the position embeddings without the rows up to fairseq's padding index."""
        if isinstance(table, nn.Embedding):
            return self.take(table.weight)[int(table.padding_idx or 0) + 1 :]
        first: int = table.padding_idx + 1
        vectors = table.get_embedding(first + longest, table.embedding_dim, table.padding_idx)
        found: Array = vectors[first:].numpy()
        return found

    # the parts of a layer

    def attention(self, spec: Any, own: Any, norm: Any, to_source: bool = False) -> None:
        """Fill in the specification of an attention layer, including its mechanisms."""
        self.norm(spec.layer_norm, norm)
        heads = getattr(own, "num_heads", None) or own.heads
        projections = [own.q_proj, own.k_proj, own.v_proj]
        weights = [self.take(one.weight).copy() for one in projections]
        biases = [
            np.zeros(len(weight), np.float32) if one.bias is None else self.take(one.bias).copy()
            for one, weight in zip(projections, weights, strict=True)
        ]
        mechanism: Any
        for mechanism in mechanisms_of(own).values():
            if mechanism.name == "temperature":
                self.fold_temperature(mechanism, weights, biases, heads)
            elif mechanism.name == "tree_supervised":
                self.fold_biaffine(mechanism, weights, biases, heads)
            elif mechanism.name == "relative":
                spec.relative_position_keys = self.take(mechanism.keys)[0]
                spec.relative_position_values = self.take(mechanism.values)[0]
            elif mechanism.name == "t5_bias":
                spec.relative_attention_bias = self.take(mechanism.table.scores).T.copy()
                spec.relative_attention_max_distance = np.int32(mechanism.options.max)
        parts = [[0], [1, 2]] if to_source else [[0, 1, 2]]
        for linear, chosen in zip(spec.linear, parts, strict=False):
            linear.weight = np.concatenate([weights[k] for k in chosen])
            linear.bias = np.concatenate([biases[k] for k in chosen])
        self.linear(spec.linear[-1], own.out_proj)

    def fold_temperature(self, mechanism: Any, weights: Any, biases: Any, heads: int) -> None:
        gamma = self.take(mechanism.gamma)  # 3 H
        for weight, bias, of_heads in zip(weights, biases, gamma, strict=True):
            factors = np.ones(heads, np.float32)
            factors[list(mechanism.heads or range(heads))] = of_heads
            rows = np.repeat(factors, len(weight) // heads)
            weight *= rows[:, None]
            bias *= rows

    def fold_biaffine(self, mechanism: Any, weights: Any, biases: Any, heads: int) -> None:
        """Fold the factor I + U, by which queries are multiplied, into the query projection."""
        if mechanism.between is None:
            return
        width = len(weights[0]) // heads
        matrices = self.take(mechanism.between)  # H D D
        for head, matrix in zip(mechanism.heads or range(heads), matrices, strict=True):
            rows = slice(head * width, (head + 1) * width)
            turn = (np.eye(width, dtype=np.float32) + matrix).T
            weights[0][rows] = turn @ weights[0][rows]
            biases[0][rows] = turn @ biases[0][rows]

    def feed_forward(self, spec: Any, layer: Any) -> None:
        self.norm(spec.layer_norm, layer.final_layer_norm)
        self.linear(spec.linear_0, layer.fc1)
        self.linear(spec.linear_1, layer.fc2)

    def linear(self, spec: Any, module: Any) -> None:
        spec.weight = self.take(module.weight)
        if module.bias is not None:
            spec.bias = self.take(module.bias)

    def norm(self, spec: Any, module: Any) -> None:
        spec.gamma, spec.beta = self.take(module.weight), self.take(module.bias)

    # the mechanisms

    def relate(self, spec: Any, half: Any, side: str) -> None:
        """Create the self-attention specifications of all layers."""
        has_alibi = [ALIBI in mechanisms_of(layer.self_attn) for layer in half.layers]
        if any(has_alibi) and not all(has_alibi):
            raise Refused("alibi in only some layers", "train with it in all layers")
        for number, (of_layer, layer) in enumerate(zip(spec.layer, half.layers, strict=True)):
            for mechanism in mechanisms_of(getattr(layer, "encoder_attn", None)).values():
                if mechanism.name != "temperature":
                    raise Refused(f"--cross-attention '{mechanism.name}'", "train without it")
            told: dict[str, Any] = {}
            mechanisms = mechanisms_of(layer.self_attn)
            for mechanism in mechanisms.values():
                told |= self.told(mechanism, side, list(mechanisms.values()))
            if number == 0 and (told or any(has_alibi)) and half.embed_positions is not None:
                raise Refused(
                    f"--{side}-positions '{half.positions}' with --{side}-attention "
                    f"'{half.attention}', whose first layer encodes positions itself",
                    f"train with --{side}-positions none",
                )
            attention = self.specs.attention_spec.MultiHeadAttentionSpec
            of_layer.self_attention = attention(self_attention=True, **told)

    def told(self, mechanism: Mechanism, side: str, beside: Sequence[Mechanism]) -> dict[str, Any]:
        """Return the arguments of MultiHeadAttentionSpec for one mechanism of a layer."""
        name, options = mechanism.name, mechanism.options
        if name == "temperature":
            return {}
        if name == "tree_supervised":
            turned = any(other.name in ("relative", "rope") for other in beside)
            if turned and mechanism.between is not None:  # they need queries without I + U
                raise Refused(
                    f"'{name}' with scores=biaffine in the same layer as relative or rope",
                    "train with scores=dot",
                )
            return {}
        if name == "relative" and any(other.name == "t5_bias" for other in beside):
            raise Refused("'relative' and 't5_bias' in one layer", "train with only one of them")
        if mechanism.heads is not None:
            raise Refused(f"'{name}' on only some heads", "train it on all heads")
        if name == "relative" and options.shared_heads:
            return {"relative_position": True}
        if name == "t5_bias" and options.scaled:
            return {"relative_attention_bias": True}
        if name == "rope":
            return {
                "rotary_dim": 0,
                "rotary_interleave": options.layout == "pairs",
                "rotary_base": options.base,
            }
        if name == ALIBI and side == "decoder" and options.sides == "symmetric":
            return {}  # TransformerDecoderSpec enables it
        raise Refused(f"--{side}-attention '{name}' or its options", f"it supports {KNOWN}")


def mechanisms_of(attention: Any) -> dict[str, Mechanism]:
    """Return the mechanisms of an attention module by name; stock fairseq modules have none."""
    return dict(getattr(attention, "mechanisms", {}))


def vocabulary(dictionary: Any) -> list[str]:
    """Return the symbols of a dictionary, with the padding symbol renamed for CTranslate2."""
    names = list(dictionary.symbols)
    names[dictionary.pad()] = PADDING
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"a vocabulary that contains '{twice}' twice", "prepare the data again")
    return names
