"""Store fingerprints of the training data in checkpoints, to detect data that do not match.

The fingerprints are part of the task's state. Averaging checkpoints or overriding options does not
change this state. Checkpoints of earlier versions contain no fingerprints and are loaded without a
comparison.
"""

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches.checked_data import checksums
from fairseq_posattn.text import pipeline
from fairseq_posattn.trees.control import TreeControl

logger = logging.getLogger(__name__)

KEY = "trained_on"


def noted(state_dict, task) -> dict:
    """Wrapper for FairseqTask.state_dict that adds the fingerprints to the task's state."""
    binary = checksums(folder_of(task)).items()
    about = {
        "dictionaries": fingerprints(task),
        "separator": separator_of(task),
        "data": {name: found for name, found in binary if name.startswith("train")},
    }
    if getattr(task, "needs_trees", False):
        about["control"] = control_of(task)
    return {**state_dict(task), KEY: about}


def compared(load_state_dict, task, state: Mapping[str, Any]) -> None:
    """Wrapper for FairseqTask.load_state_dict that raises an InputError if dictionaries differ.

    With different dictionaries, the translations would be meaningless.
    """
    compare(task, state)
    load_state_dict(task, {name: value for name, value in state.items() if name != KEY})


def compared_when_resumed(load_checkpoint, trainer, filename, *args, **kwargs):
    """Wrapper for Trainer.load_checkpoint that raises an InputError if dictionaries differ.

    fairseq ignores the task's state when it resumes training.
    """
    compare(trainer.task, task_state(filename))
    return load_checkpoint(trainer, filename, *args, **kwargs)


def task_state(path: str) -> dict:
    """Return the task's state in a checkpoint without loading any tensors.

    The result is empty if the file cannot be read; fairseq reports this when it loads the file.
    """
    try:
        return dict(torch.load(path, map_location="cpu", mmap=True)["task_state"])
    except Exception:  # a file of another kind can raise anything
        return {}


def compare(task, state: Mapping[str, Any]) -> None:
    """Raise an InputError if the dictionaries or the piece separator differ from those in training.

    The stored fingerprints are assigned to `task.trained_on`, which `warn_of_control` reads.
    """
    about = state.get(KEY)
    if not isinstance(about, dict) or not isinstance(about.get("dictionaries"), dict):
        return
    task.trained_on = about
    for side, dictionary in dictionaries(task).items():
        trained = about["dictionaries"].get(side)
        if trained not in (None, fingerprint(dictionary)):
            raise InputError(
                f"{getattr(dictionary, 'path', 'the data')}: the model was trained with another "
                f"dictionary of the {side}, whose indices refer to different symbols; use the "
                "training data, or binarise other data with the training dictionaries (--srcdict, "
                "--tgtdict)"
            )
    mark, trained = separator_of(task), about.get("separator")
    if None not in (mark, trained) and mark != trained:
        raise InputError(
            f"{folder_of(task) / pipeline.FILE}: the piece separator is '{mark}', but it is "
            f"'{trained}' in the model's training data; restore {pipeline.FILE}, or prepare "
            "the data again"
        )


def warn_of_control(task, control: str | None) -> None:
    """Warn once if the data and the training data have different control trees.

    control: the kind of control trees in the data, such as `chain`; None if it is unknown, in which
        case there is no warning.
    """
    trained = getattr(task, "trained_on", {}).get("control")
    if None not in (control, trained) and control != trained:
        task.trained_on["control"] = None
        logger.warning(
            "the model was trained on trees of the control '%s', but these data have the control "
            "'%s', so the results are not comparable with those on trees of the training control",
            trained,
            control,
        )


def check_control(task, asked: str | None) -> None:
    """Raise an InputError if --tree-control differs from the tree control of the data.

    asked: the value of the option; if None, there is only a warning (see `warn_of_control`).
    """
    stored = control_of(task)
    if asked is None:
        return warn_of_control(task, stored)
    control = TreeControl.from_tag(asked)
    if control.tag != (stored or "own"):
        raise InputError(
            f"--tree-control {asked} applies to sentences without stored trees, but the data in "
            f"{folder_of(task)} have trees of the control '{stored or 'own'}'; omit this option or "
            f"run posattn prepare --control {control.kind} with the same --flip and --control-seed"
        )


def dictionaries(task) -> dict[str, Dictionary]:
    """Return the dictionaries of a task, keyed by a name such as `source`.

    The result is empty for unsupported tasks, such as multilingual ones.
    """
    if hasattr(task, "checked_dictionaries"):
        return task.checked_dictionaries()
    if isinstance(task, TranslationTask):
        return {"source": task.source_dictionary, "target": task.target_dictionary}
    if isinstance(task, LanguageModelingTask):
        return {"text": task.source_dictionary}
    return {}


def fingerprints(task) -> dict[str, str]:
    return {name: fingerprint(dictionary) for name, dictionary in dictionaries(task).items()}


def fingerprint(dictionary: Dictionary) -> str:
    """Return an order-dependent digest of all symbols."""
    return hashlib.blake2b("\n".join(dictionary.symbols).encode(), digest_size=16).hexdigest()


def separator_of(task) -> str | None:
    """Return the piece separator recorded in prepare.json, or None if there is no such file."""
    prepared = prepared_as(task)
    return None if prepared is None else prepared.separator


def control_of(task) -> str | None:
    """Return the data's tree control, or None if prepare.json does not contain it."""
    prepared = prepared_as(task)
    return None if prepared is None else prepared.config.control.tag


def prepared_as(task) -> pipeline.TextPipeline | None:
    """Return the content of prepare.json, or None if it is missing or invalid."""
    try:
        if hasattr(type(task), "prepared"):
            return task.prepared
        return pipeline.TextPipeline.load(folder_of(task))
    except (OSError, InputError):
        return None


def folder_of(task) -> Path:
    data = getattr(getattr(task, "cfg", None), "data", None)
    return Path(utils.split_paths(data)[0] if data else "")
