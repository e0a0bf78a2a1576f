"""Compute the picture of an encoder layer of a trained model for one sentence."""

from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.core.attention import Mechanism, MultiheadSelfAttention
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.config import layer_numbers
from fairseq_posattn.inspection.attention import encoder_inputs
from fairseq_posattn.inspection.model import load
from fairseq_posattn.inspection.picture import READING, Picture, about, layout_of
from fairseq_posattn.inspection.sentence import checked
from fairseq_posattn.inspection.trace import trace
from fairseq_posattn.text.live.providers import provider_name
from fairseq_posattn.text.live.segmented import segment
from fairseq_posattn.trees.sentence import Sentence


def trained_picture(
    checkpoint: Path,
    text: str,
    sentence: Sentence,
    number: int | None = None,
    data: str | None = None,
    user_dir: str | None = None,
) -> Picture:
    """Compute the picture of an encoder layer of a trained model for a text.

    sentence: the words of the text, with the tree if it is known.
    number: layer number, counted from 0 (default: the first layer with a mechanism).
    """
    loaded = load(checkpoint, data, user_dir, cpu=True)
    model = loaded.model.requires_grad_(False)
    number, layer = chosen_layer(model, number, checkpoint)
    sample, shown = read(loaded.task, text, sentence)
    arguments: list[Any] = []
    with layer.register_forward_pre_hook(lambda _, given: arguments.extend(given)):
        model.encoder(**encoder_inputs(sample))
    x, ctx, *_ = arguments
    norm = partial(layer.norm_before, norm=layer.self_attn_layer_norm)
    tokens = sample["net_input"]["src_tokens"][0].tolist()
    pieces = [loaded.task.source_dictionary[k] for k in tokens]
    mechanisms = of_stage(layer.self_attn.mechanisms.values(), Mechanism)
    of_specification = layer_numbers(model.encoder.cfg.encoder)[number]  # its number before pruning
    uses = model.encoder.attention.in_layer(of_specification)
    return Picture(
        title=f"{checkpoint.name}: {' + '.join(map(str, uses)) or 'plain attention'}",
        mechanisms=about(mechanisms),
        notes=(
            f"Layer {number}, {layer.self_attn.heads} heads.",
            "Word vectors and parameters are those of the checkpoint.",
            READING,
        ),
        pieces=tuple(checked(Sentence(pieces), "the sentence in pieces").words),
        tree=layout_of(checked(shown, "--sentence"), mechanisms),
        rows=tuple(trace(layer.self_attn, x, ctx, norm)),
    )


def chosen_layer(model: Any, number: int | None, checkpoint: Path) -> tuple[int, Any]:
    """Return the number and the module of the layer to draw.

    Raises InputError if the model is not supported or has no such layer.
    """
    layers = list(getattr(getattr(model, "encoder", None), "layers", ()))
    own = [isinstance(getattr(one, "self_attn", None), MultiheadSelfAttention) for one in layers]
    if not own or not all(own) or not hasattr(model.encoder, "attention"):
        raise InputError(
            f"{checkpoint}: {type(model).__name__} has no encoder with attention of this package; "
            "choose a model of --arch posattn_transformer, or draw maps with posattn examples"
        )
    if number is None:
        number = next((k for k, one in enumerate(layers) if one.self_attn.mechanisms), 0)
    if number >= len(layers):
        raise InputError(
            f"--layer {number}: the encoder of {checkpoint} has {len(layers)} layers; "
            f"choose 0 to {len(layers) - 1}"
        )
    return number, layers[number]


def read(task: Any, text: str, given: Sentence) -> tuple[dict, Sentence]:
    """Return a batch with a sentence, and the sentence with the tree that the model reads.

    A text without a tree is processed by the text pipeline of the data folder, as in posattn
    interactive.
    """
    if not hasattr(task, "new_sentences"):
        raise InputError(
            f"--path: the task {task.cfg._name} cannot read new sentences with trees; "
            "choose a model that was trained with --task structured_translation"
        )
    if given.parents is None:
        needs_parser = task.needs_trees and task.new_text.control.needs_trees
        if needs_parser and provider_name(task.cfg, task.prepared) == "none":
            where = f"{given.where}: the sentence" if given.path else "--sentence"
            raise InputError(
                f"{where} has no tree, which the model needs, and the model's data define no "
                "parser; use --conllu FILE to draw a sentence with a tree"
            )
        [pieces] = task.new_sentences([text], str)
    elif task.prepared is None:
        [pieces] = task.new_sentences([text], str, [given])
    else:
        line = segment(task.prepared.source_text(text), given, task.prepared)
        [pieces] = task.pieces_of([line], [given])
    tokens = task.source_dictionary.encode_line(pieces, add_if_not_exist=False).long()
    dataset = task.build_dataset_for_inference([tokens], [len(tokens)])
    sample = dataset.collater([dataset[0]])
    return sample, sample["sentences"][0] if task.needs_trees else given
