"""Export a trained model to CTranslate2, and prove that it computes the same there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fairseq.utils import split_paths

from fairseq_posattn.doors.converter import Converter
from fairseq_posattn.doors.exported import (
    ABOUT,
    LONGEST,
    About,
    ExportRequest,
    copy_pipeline,
    import_ctranslate2,
)
from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import folder_written_whole
from fairseq_posattn.io.code_version import code_version
from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.progress import progress
from fairseq_posattn.io.records import as_document
from fairseq_posattn.lab.scoring.loaded_model import Loaded, load
from fairseq_posattn.text import pipeline

TOLERANCE = 1e-4  # of the log-probability of a piece
BEAM = 5


def export(request: ExportRequest) -> About:
    """Write the folder of a model, if it is proved to compute the same there."""
    loaded = load(request.path, request.data, request.user_dir, cpu=True)
    data = Path(str(split_paths(loaded.task.cfg.data)[0]))
    with folder_written_whole(request.out) as folder:
        save(loaded, folder, None)
        difference, same, sentences = prove(loaded, folder, request)
        if difference > TOLERANCE:
            raise InputError(
                f"{request.path}: in CTranslate2 the log-probability of a piece is off by "
                f"{difference:.2g}, where {TOLERANCE:g} is admitted, so nothing was exported; "
                "report the options of the model as an error of this program"
            )
        if request.quantization not in (None, "float32"):
            save(loaded, folder, request.quantization)
        if pipeline.exists(data):
            copy_pipeline(data, folder)
        about = About(
            code=code_version(),
            quantization=request.quantization or "float32",
            longest=loaded.model.cfg.max_source_positions,
            sentences=sentences,
            difference=difference,
            same=same,
        )
        write_json(folder / ABOUT, as_document(about), indent=1)
    return about


def save(loaded: Loaded, folder: Path, quantization: str | None) -> None:
    """Write the model as CTranslate2 reads it."""
    spec = Converter(loaded).specification()
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def prove(loaded: Loaded, folder: Path, request: ExportRequest) -> tuple[float, int, int]:
    """Translate sentences with both programs, and let the other one score our translations.

    Return the largest difference of the log-probability of a piece, how many translations are the
    same, and how many sentences there were.
    """
    task, models = loaded.task, [loaded.model]
    task.load_dataset(request.gen_subset)
    dataset = task.dataset(request.gen_subset)
    loaded.cfg.generation.beam = BEAM
    generator = task.build_generator(models, loaded.cfg.generation)
    sources, ours, scores = [], [], []
    for number in progress(range(min(request.sentences, len(dataset)))):
        sample = dataset.collater([dataset[number]])
        best = task.inference_step(generator, models, sample)[0][0]
        source = sample["net_input"]["src_tokens"][0].tolist()
        sources.append([task.source_dictionary[k] for k in source[:-1]])
        ours.append([task.target_dictionary[k] for k in best["tokens"].tolist()[:-1]])
        scores.append(best["positional_scores"].numpy())
    translator = import_ctranslate2().Translator(str(folder), device="cpu")
    scored = translator.score_batch(sources, ours, max_input_length=0)
    difference = max(
        float(np.abs(own - np.array(other.log_probs)).max())
        for own, other in zip(scores, scored, strict=True)
    )
    found = translator.translate_batch(
        sources, beam_size=BEAM, max_decoding_length=LONGEST, max_input_length=0
    )
    same = sum(one.hypotheses[0] == own for one, own in zip(found, ours, strict=True))
    return difference, same, len(sources)
