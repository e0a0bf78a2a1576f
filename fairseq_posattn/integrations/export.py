"""Export a trained model to CTranslate2, and verify that the two models are equivalent.

fairseq and CTranslate2 score the same sentence pairs. The pairs are sentences of a data subset with
fairseq's translations, and synthetic pairs of many lengths, which cover all symbols and unknown
words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.utils import split_paths

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.files import sha256, write_json
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.records import as_document
from fairseq_posattn.files.version import code_version
from fairseq_posattn.inspection.model import Loaded, load
from fairseq_posattn.integrations.converter import Converter, vocabulary
from fairseq_posattn.integrations.exported import (
    ABOUT,
    About,
    ExportRequest,
    copy_pipeline,
    import_ctranslate2,
    search_options,
)
from fairseq_posattn.text import pipeline

TOLERANCE = 1e-4  # maximum difference between the log-probabilities of a token


def export(request: ExportRequest) -> About:
    """Export a model to the folder `request.out`, and return the content of exported.json.

    If log-probabilities differ by more than TOLERANCE, raise an InputError and write nothing.
    """
    loaded = load(request.path, request.data, request.user_dir, cpu=True)
    data = Path(str(split_paths(loaded.task.cfg.data)[0]))
    with folder_written_whole(request.out) as folder:
        save(loaded, folder, None)
        proof = prove(loaded, folder, request.gen_subset, request.sentences)
        if not proof.difference <= TOLERANCE:  # it may be NaN
            raise InputError(
                f"{request.path}: CTranslate2's log-probability of a token differs from the "
                f"model's by {proof.difference:.2g}, more than {TOLERANCE:g}, so nothing was "
                "exported; report this as a bug, with the options of the model"
            )
        if request.quantization not in (None, "float32"):
            save(loaded, folder, request.quantization)
        if pipeline.exists(data):
            copy_pipeline(data, folder)
        about = About(
            code=code_version(),
            quantization=request.quantization or "float32",
            longest=loaded.model.max_positions()[0],
            longest_target=loaded.model.max_positions()[1],
            files={path.name: sha256(path) for path in sorted(folder.iterdir())},
            **proof._asdict(),
        )
        about = replace(about, checksum=about.own_checksum())
        write_json(folder / ABOUT, as_document(about), indent=1)
    return about


def save(loaded: Loaded, folder: Path, quantization: str | None) -> None:
    spec = Converter(loaded).specification()
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


BEAM = 5
ALL_LENGTHS = 32  # every length up to this one is tested, and some longer ones
LONGEST_TRIED = 1023
LENGTH_OF_SYMBOLS = 64  # length of additional pairs that cover the remaining symbols
BATCH = 2048  # tokens that CTranslate2 scores at once
UNKNOWN = "an unknown word"  # no piece contains a space


class Symbol(NamedTuple):
    """A symbol, with its index in fairseq's dictionary and its name in CTranslate2's vocabulary."""

    number: int
    name: str


class Pair(NamedTuple):
    """A source and a target sentence, both without `</s>`."""

    source: Sequence[Symbol]
    target: Sequence[Symbol]


class Proof(NamedTuple):
    """The result of comparing a model with its export.

    difference: the largest difference between the models' log-probabilities of a token.
    sentences: the number of translated sentences.
    same: the number of sentences with identical translations.
    """

    difference: float
    sentences: int
    same: int


def prove(loaded: Loaded, folder: Path, subset: str, sentences: int) -> Proof:
    """Compare a model with its export in `folder`.

    sentences: the maximum number of sentences that are translated.
    """
    translator = import_ctranslate2().Translator(str(folder), device="cpu")
    pairs = synthetic_pairs(loaded)
    difference = largest_difference(loaded, translator, pairs)
    pairs = list(translated(loaded, subset, sentences))
    if not pairs:
        return Proof(difference, 0, 0)
    difference = max(difference, largest_difference(loaded, translator, pairs))
    found = translator.translate_batch(
        [names(pair.source) for pair in pairs],
        beam_size=BEAM,
        **search_options(loaded.model.max_positions()[1]),
    )
    same = sum(
        one.hypotheses[0] == names(pair.target) for one, pair in zip(found, pairs, strict=True)
    )
    return Proof(difference, len(pairs), same)


def largest_difference(loaded: Loaded, translator: Any, pairs: Sequence[Pair]) -> float:
    """Return the largest difference between the two models' log-probabilities of a token.

    For log-probabilities below -1, the relative difference is used, because rounding errors grow
    with their magnitude.
    """
    ours = np.concatenate([log_probabilities(loaded, pair) for pair in Progress(pairs)])
    scored = translator.score_batch(
        [names(pair.source) for pair in pairs],
        [names(pair.target) for pair in pairs],
        max_input_length=0,
        max_batch_size=BATCH,
        batch_type="tokens",
    )
    if not np.isfinite(ours).all():
        raise InputError(
            "the model's log-probabilities are not finite, because its weights are damaged or too "
            "large; export another checkpoint"
        )
    off = np.abs(ours - np.concatenate([one.log_probs for one in scored]))
    return float((off / np.maximum(1, np.abs(ours))).max())


@torch.no_grad()
def log_probabilities(loaded: Loaded, pair: Pair) -> np.ndarray:
    """Return the log-probabilities of the tokens of a target, including `</s>`."""
    end = loaded.task.target_dictionary.eos()
    source = torch.tensor([*numbers(pair.source), loaded.task.source_dictionary.eos()])
    target = torch.tensor([end, *numbers(pair.target), end])
    output = loaded.model(source[None], torch.tensor([len(source)]), target[None, :-1])
    scores = loaded.model.get_normalized_probs(output, log_probs=True)[0]
    return scores.gather(1, target[1:, None])[:, 0].numpy()


def translated(loaded: Loaded, subset: str, sentences: int) -> Iterator[Pair]:
    """Yield a subset's sentences with the model's translations; skip overlong sentences."""
    task, models = loaded.task, [loaded.model]
    task.load_dataset(subset)
    dataset = task.dataset(subset)
    longest, _ = loaded.model.max_positions()
    fitting = (k for k in range(len(dataset)) if len(dataset[k]["source"]) <= longest)
    loaded.cfg.generation.beam = BEAM
    generator = task.build_generator(models, loaded.cfg.generation)
    sides = [vocabulary(task.source_dictionary), vocabulary(task.target_dictionary)]
    for number in Progress(list(islice(fitting, sentences))):
        sample = dataset.collater([dataset[number]])
        best = task.inference_step(generator, models, sample)[0][0]["tokens"]
        found = (sample["net_input"]["src_tokens"][0].tolist()[:-1], best.tolist()[:-1])
        yield Pair(
            *([Symbol(k, of[k]) for k in side] for side, of in zip(found, sides, strict=True))
        )


def synthetic_pairs(loaded: Loaded) -> list[Pair]:
    """Return random sentence pairs that cover both vocabularies.

    Their lengths range up to the model's maximum length, or to LONGEST_TRIED if that is smaller.
    """
    positions = loaded.model.max_positions()
    sources = synthetic_sentences(loaded.task.source_dictionary, positions[0] - 1)
    targets = synthetic_sentences(loaded.task.target_dictionary, positions[1] - 1)
    pairs = zip_longest(sources, targets)
    return [Pair(source or sources[-1], target or targets[-1]) for source, target in pairs]


def synthetic_sentences(dictionary: Any, longest: int) -> list[list[Symbol]]:
    """Return random sentences of increasing length that cover the vocabulary.

    The padding symbol is replaced by an unknown word.
    """
    symbols = [Symbol(*symbol) for symbol in enumerate(vocabulary(dictionary))]
    symbols[dictionary.pad()] = Symbol(dictionary.unk(), UNKNOWN)
    Random(1).shuffle(symbols)
    sizes = lengths(min(longest, LONGEST_TRIED))
    while sum(sizes) < len(symbols):
        sizes.append(min(longest, LENGTH_OF_SYMBOLS))
    stream = cycle(symbols)
    return [list(islice(stream, size)) for size in sizes]


def lengths(longest: int) -> list[int]:
    """Return the sentence lengths to test, in increasing order."""
    found, length = [], 1
    while length < longest:
        found.append(length)
        length = length + 1 if length < ALL_LENGTHS else length * 5 // 4
    return [*found, longest]


def names(sentence: Sequence[Symbol]) -> list[str]:
    return [symbol.name for symbol in sentence]


def numbers(sentence: Sequence[Symbol]) -> list[int]:
    return [symbol.number for symbol in sentence]
