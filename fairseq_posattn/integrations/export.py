"""Export a trained model to CTranslate2, and verify that the two models are equivalent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fairseq.utils import split_paths

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import folder_written_whole
from fairseq_posattn.files.checksums import sha256
from fairseq_posattn.files.code_version import code_version
from fairseq_posattn.files.files import write_json
from fairseq_posattn.files.records import as_document
from fairseq_posattn.inspection.model import Loaded, load
from fairseq_posattn.integrations.converter import Converter
from fairseq_posattn.integrations.exported import (
    ABOUT,
    About,
    ExportRequest,
    copy_pipeline,
)
from fairseq_posattn.integrations.proof import prove
from fairseq_posattn.text import pipeline

TOLERANCE = 1e-4  # largest admissible difference of a token's log-probability


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
