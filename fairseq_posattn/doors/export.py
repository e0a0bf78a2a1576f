"""Export a trained model to CTranslate2, and prove that it computes the same there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fairseq.utils import split_paths

from fairseq_posattn.doors.converter import Converter
from fairseq_posattn.doors.exported import (
    ABOUT,
    About,
    ExportRequest,
    copy_pipeline,
)
from fairseq_posattn.doors.proof import prove
from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import folder_written_whole
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.code_version import code_version
from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.records import as_document
from fairseq_posattn.lab.scoring.loaded_model import Loaded, load
from fairseq_posattn.text import pipeline

TOLERANCE = 1e-4  # of the log-probability of a piece


def export(request: ExportRequest) -> About:
    """Write the folder of a model, if it is proved to compute the same there."""
    loaded = load(request.path, request.data, request.user_dir, cpu=True)
    data = Path(str(split_paths(loaded.task.cfg.data)[0]))
    with folder_written_whole(request.out) as folder:
        save(loaded, folder, None)
        proof = prove(loaded, folder, request.gen_subset, request.sentences)
        if not proof.difference <= TOLERANCE:  # it may be NaN
            raise InputError(
                f"{request.path}: in CTranslate2 the log-probability of a piece is off by "
                f"{proof.difference:.2g}, where {TOLERANCE:g} is admitted, so nothing was "
                "exported; report the options of the model as an error of this program"
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
    """Write the model as CTranslate2 reads it."""
    spec = Converter(loaded).specification()
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
