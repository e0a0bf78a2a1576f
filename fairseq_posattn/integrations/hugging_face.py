"""Add attention mechanisms to Hugging Face models, and trees to their batches.

The mechanisms use transformers' AttentionInterface. Their parameters are trained with the model and
stored by save_pretrained.

The trees of a batch are passed as the integer tensor `source_tree`, of shape (B, 2, T). `[:, 0]`
contains the word index of each piece; all special pieces share one additional index, and padding
has the index -1. `[:, 1]` contains the index of each word's parent; the root is its own parent.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fairseq_posattn.core.attention import AttentionShape, AttentionSpecification
from fairseq_posattn.core.attention.mechanism import Mechanism, Use
from fairseq_posattn.core.attention.stages import PostAttention, PreAttention
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.integrations.attention_interface import (
    NAME,
    TREE,
    State,
    bind_checkpoints,
    register,
)
from fairseq_posattn.integrations.saved_models import (
    CONFIG,
    added_in,
    check_sums,
    load,
    load_own,
    own_weights,
    weight_files,
    write_sums,
)
from fairseq_posattn.integrations.tree_batches import TreeCollator, encode

__all__ = ["TreeCollator", "add_attention", "encode", "from_pretrained"]
SELF_ATTENTION = re.compile(r"(^|\.)(self_attn|SelfAttention|attention\.self)$")
HEADS = ("num_heads", "n_heads", "num_attention_heads")
WIDTHS = ("head_dim", "key_value_proj_dim", "attention_head_size")
SIDES = ("encoder", "decoder")
WITHIN = ContextVar("WITHIN", default=False)  # whether the model's forward or generate is running


def add_attention(
    model: Any,
    specification: str,
    layers: Sequence[int] | None = None,
    side: str = "encoder",
    neutral: bool = False,
) -> Any:
    """Add the mechanisms of a specification to a model's self-attention, and return the model.

        add_attention(model, "tree_relative(max=16)", layers=[0, 1, 2], neutral=True)

    layers: indices of the layers that may use the mechanisms (default: all); an `@` in the
        specification restricts the layers further.
    side: "encoder" or "decoder".
    neutral: whether to initialise the new parameters such that the model's output is unchanged.

    After this call, forward and generate accept `source_tree`. An InputError is raised for
    unsupported models, mechanisms and layers.
    """
    attentions = attentions_of(model, side)
    check_numbers(layers, len(attentions))
    read = AttentionSpecification(specification)
    shape = shape_of(model, attentions[0])
    read.check(len(attentions), shape)
    refuse(read.uses, side)
    if neutral:
        refuse_not_neutral(read.uses)
    shared: dict[str, nn.Module] = {}
    state = model.__dict__.setdefault(f"{NAME}_state", State())
    if (half := half_of(model, side)) is not model:
        half.__dict__[f"{NAME}_state"] = state
        half.register_forward_pre_hook(alone, with_kwargs=True)
    for number, attention in enumerate(attentions):
        built = read.build(number, shape, shared) if layers is None or number in layers else []
        if built:
            own = nn.ModuleDict({mechanism.name: mechanism for mechanism in built})
            own.to(next(attention.parameters())).train(attention.training)
            attention.add_module(NAME, own)
            attention.__dict__[f"{NAME}_state"] = state
    if shared:
        like = next(attentions[0].parameters())
        half.add_module(f"{NAME}_shared", nn.ModuleDict(shared).to(like))
    if neutral:
        for mechanism in half.modules():
            if isinstance(mechanism, Mechanism):
                mechanism.set_neutral()
        for module in shared.values():
            for parameter in module.parameters():
                nn.init.zeros_(parameter)
    about = {"specification": str(read), "layers": None if layers is None else list(layers)}
    model.config.update({NAME: {**(getattr(model.config, NAME, None) or {}), side: about}})
    bind_checkpoints(model, state)
    if read.uses:
        register()
        model.set_attn_implementation(NAME)
    kind: Any = type(model)
    model.__class__ = taking_trees(kind)
    return model


def from_pretrained(kind: Any, folder: str | Path, **options: Any) -> Any:
    """Load a model with mechanisms that was saved with save_pretrained.

        model = from_pretrained(MarianMTModel, "folder")

    kind: the class of the model.
    options: passed to the from_pretrained method of this class.

    An InputError is raised if a file was changed after it was saved, or if weights are missing,
    unknown or not finite.
    """
    folder = Path(folder)
    check_sums(folder)
    added = added_in(folder, kind.__name__)
    weights = own_weights(weight_files(folder))
    model, unused = load(kind, folder, options)
    model.config.update({NAME: None})
    for side, one in added.items():
        try:
            add_attention(model, one.specification, one.layers, side)
        except InputError as error:
            raise InputError(f"{folder / CONFIG}: {error}") from None
    load_own(model, weights, unused, folder)
    return model


def half_of(model: Any, side: str) -> Any:
    if side not in SIDES:
        raise InputError(f"side='{side}' does not exist; choose {' or '.join(SIDES)}")
    if model.config.is_encoder_decoder:
        return model.get_encoder() if side == "encoder" else model.get_decoder()
    if side == "decoder" or getattr(model.config, "is_decoder", False):
        raise InputError("decoders work only in encoder-decoder models; change side or the model")
    return model.base_model


def attentions_of(model: Any, side: str) -> list[Any]:
    """Return each layer's self-attention module; raise an InputError for unsupported models."""
    named = half_of(model, side).named_modules()
    found = [module for name, module in named if SELF_ATTENTION.search(name)]
    kind = type(model).__name__
    if not found:
        raise InputError(
            f"the {side} of {kind} has no known self-attention; use Marian, BART, mBART, M2M100, "
            "T5, or an encoder like BERT"
        )
    for attention in found:
        passes_on = "ALL_ATTENTION_FUNCTIONS" in vars(inspect.getmodule(type(attention)))
        if not passes_on or not hasattr(attention, "scaling"):
            raise InputError(
                f"{kind} does not use the AttentionInterface in this release of transformers; "
                "install another release"
            )
        if hasattr(attention, NAME):
            raise InputError(
                f"the {side} of this {kind} already has mechanisms; add all of them in one call"
            )
    return found


def check_numbers(layers: Any, count: int) -> None:
    if layers is None:
        return
    if isinstance(layers, str) or not isinstance(layers, Sequence):
        raise InputError(f"layers={layers!r} is not a list; pass a list of numbers, such as [0, 1]")
    for number in layers:
        if type(number) is not int or number not in range(count):
            raise InputError(
                f"there is no layer {number}; choose from the {count} layers, counted from 0"
            )


def shape_of(model: Any, attention: Any) -> AttentionShape:
    heads, width = (
        next(getattr(attention, name) for name in names if hasattr(attention, name))
        for names in (HEADS, WIDTHS)
    )
    return AttentionShape(heads, width, getattr(model.config, "max_position_embeddings", 1024))


def refuse_not_neutral(uses: Sequence[Use]) -> None:
    """Raise a SpecificationError for mechanisms that always change the model's output."""
    for use in uses:
        neutral = use.mechanism.neutral
        if neutral is None or neutral not in str(use) or use.mechanism.name == "alibi":
            raise SpecificationError(
                f"'{use}' changes the model's output before training; omit neutral=True"
            )


def refuse(uses: Sequence[Use], side: str) -> None:
    """Raise a SpecificationError for mechanisms that do not work in Hugging Face models.

    Mechanisms may use only queries, keys, values and trees.
    """
    for use in uses:
        mechanism, reason = use.mechanism, ""
        if issubclass(mechanism, (PreAttention, PostAttention)):
            reason = "it needs the input of the layer"
        elif mechanism.needs_labels:
            reason = "it reads word labels"
        elif mechanism.learns_from_trees:
            reason = "it adds a loss term to the training"
        elif mechanism.reads_brackets and mechanism.cross_safe:
            reason = "it acts in cross-attention, which add_attention does not change"
        elif mechanism.reads_brackets:
            reason = "it reads the brackets of the target"
        elif side == "decoder" and not mechanism.causal_safe:
            reason = "it attends to later positions, or reads source trees"
        if reason:
            raise SpecificationError(
                f"'{mechanism.name}' does not work in the {side} of a Hugging Face model, because "
                f"{reason}; leave it out"
            )


def alone(half: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Store the trees of the batch if the encoder or decoder is called directly."""
    tree = kwargs.pop(TREE, None)
    if not WITHIN.get():
        half.__dict__[f"{NAME}_state"].begin(tree, [*args, *kwargs.values()])
    return args, kwargs


@contextmanager
def within() -> Iterator[None]:
    token = WITHIN.set(True)
    try:
        yield
    finally:
        WITHIN.reset(token)


def without_weights(kind: Any) -> Any:
    """Return an instance of `taking_trees(kind)` whose attributes pickle restores afterwards."""
    register()
    made = taking_trees(kind)
    return made.__new__(made)


@cache
def taking_trees(kind: Any) -> Any:
    """Return a subclass of a model class whose forward and generate accept `source_tree`."""
    if hasattr(kind, f"{NAME}_takes_trees"):
        return kind

    class TakingTrees(kind):
        def forward(self, *args: Any, source_tree: Tensor | None = None, **kwargs: Any) -> Any:
            state = self.__dict__[f"{NAME}_state"]
            if state.generating:
                state.contexts.clear()
            else:
                state.begin(source_tree, [*args, *kwargs.values()])
            with within():
                return super().forward(*args, **kwargs)

        def generate(self, *args: Any, source_tree: Tensor | None = None, **kwargs: Any) -> Any:
            state = self.__dict__[f"{NAME}_state"]
            state.begin(source_tree, [*args, *kwargs.values()])
            state.generating = True
            try:
                with within():
                    return super().generate(*args, **kwargs)
            finally:
                state.generating = False

        def save_pretrained(self, save_directory: str | Path, *args: Any, **options: Any) -> None:
            super().save_pretrained(save_directory, *args, **options)
            if options.get("is_main_process", True):
                write_sums(Path(save_directory))

        def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
            return without_weights, (kind,), self.__dict__

    own = inspect.signature(kind.forward)
    tree = inspect.Parameter(TREE, inspect.Parameter.KEYWORD_ONLY, default=None)
    listed = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    rest = [one for one in own.parameters.values() if one.kind is one.VAR_KEYWORD]
    shown = own.replace(parameters=[*listed, tree, *rest])  # Trainer drops unlisted columns
    setattr(TakingTrees.forward, "__signature__", shown)  # noqa: B010
    TakingTrees.__name__, TakingTrees.__qualname__ = kind.__name__, kind.__qualname__
    TakingTrees.__module__ = kind.__module__
    setattr(TakingTrees, f"{NAME}_takes_trees", True)
    return TakingTrees
