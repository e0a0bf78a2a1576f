"""Translate sentences with a trained model, and export their trees and attention weights."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.inspection.attention import (
    decoder_attention,
    encoder_attention,
    shows_attention,
)
from fairseq_posattn.inspection.model import ExampleRequest
from fairseq_posattn.inspection.sentence import SourceSentence, Subset, check_numbers, read_trees
from fairseq_posattn.scoring.generate_log import to_text
from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.sentence import Sentence


def examples(request: ExampleRequest) -> list[dict[str, Any]]:
    """Translate the requested sentences, and return their JSON records in the requested order."""
    loaded, data, numbers = request.load(), request.data, request.sentences
    text = to_text(data, loaded.separator, None)
    subset = Subset(loaded, request.gen_subset)
    options = loaded.cfg.generation
    options.beam, options.lenpen = request.beam, request.lenpen
    generator = loaded.task.build_generator([loaded.model], options)
    check_numbers(numbers, len(subset), f"{data}: {request.gen_subset}")
    given = read_trees(request.trees, numbers) if request.trees else {}
    references = read_references(request.references, numbers) if request.references else {}
    return [
        example(subset[number], generator, text, given.get(number), references.get(number))
        for number in Progress(numbers)
    ]


def example(
    source: SourceSentence,
    generator: Any,
    text: Callable[[str], str],
    given: Sentence | None,
    reference: str | None,
) -> dict[str, Any]:
    """Translate one sentence, and return its JSON record.

    text: a function that converts subword units to text.
    given: the same sentence in the user's CoNLL-U file, if there is one.
    reference: the reference translation; None to take it from the data.
    """
    model, task, _ = source.loaded
    if given is not None:
        source.check(given)
        if source.words.parents and given.parents and given.parents != source.words.parents:
            raise InputError(
                f"{given.where}: the tree of sentence {source.number} differs from that in the "
                "data; use the CoNLL-U file that the data were made from"
            )
    shown = given or source.words
    # the best hypothesis, including the end-of-sentence token
    best = task.inference_step(generator, [model], source.sample)[0][0]["tokens"]

    def target_text(tokens: Tensor) -> str:
        return text(task.target_dictionary.string(tokens.int().cpu()))

    if reference is None and source.sample.get("target") is not None:
        reference = target_text(source.sample["target"][0])
    return {
        "number": source.number,
        **({"text": shown.text} if shown.text else {}),
        "words": shown.words,
        "parents": shown.parents,
        "depths": None if shown.parents is None else depths(shown.parents),
        "relations": shown.relations,
        "pieces": source.pieces,
        "translation": target_text(best),
        "reference": reference,
        "attention": packed(encoder_attention(model, source.sample)),
        **decoder_maps(source, best),
    }


def decoder_maps(source: SourceSentence, tokens: Tensor) -> dict[str, Any]:
    """Return the target pieces, and the decoder's attention weights during their generation.

    The result is empty if the decoder has no attention.
    """
    model, task, _ = source.loaded
    if not shows_attention(model.decoder, "self_attn", "encoder_attn"):
        return {}
    own, crossing = decoder_attention(model, source.sample, tokens)
    return {
        "target_pieces": [task.target_dictionary[k] for k in tokens.tolist()],
        "decoder_attention": packed(own),
        "cross_attention": packed(crossing),
    }


def packed(weights: np.ndarray) -> dict[str, Any]:
    """Encode attention weights as base64, with one byte per weight.

    The byte 255 represents 1, or `largest` if a weight exceeds 1 (as in convolved attention).
    """
    layers, heads, queries, keys = weights.shape
    largest = max(1.0, float(weights.max()))
    numbers = np.round(255 * weights / largest).astype(np.uint8)
    return {
        "layers": layers,
        "heads": heads,
        "queries": queries,
        "keys": keys,
        **({"largest": largest} if largest > 1 else {}),
        "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }


def read_references(path: str, numbers: Sequence[int]) -> dict[int, str]:
    lines = list(read_lines(path))
    check_numbers(numbers, len(lines), path)
    return {number: lines[number] for number in numbers}
