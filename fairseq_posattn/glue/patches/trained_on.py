"""Store in a checkpoint what its data meant, and compare it with the data that it meets later.

The state of the task holds it, because it outlives fairseq's overrides of options and the mean of
several checkpoints. A checkpoint of an earlier version has none of it, and is loaded as before.
"""

from __future__ import annotations

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
from fairseq_posattn.glue.patches.checked_data import checksums
from fairseq_posattn.text import pipeline
from fairseq_posattn.text.tagging.vocabulary import Vocabulary
from fairseq_posattn.trees.control import TreeControl

logger = logging.getLogger(__name__)

KEY = "trained_on"


def noted(state_dict, task) -> dict:
    """Wrap FairseqTask.state_dict, which stands in each checkpoint, to tell what the data are."""
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
    """Wrap FairseqTask.load_state_dict to refuse data that mean something else, whose
    translations would be nonsense."""
    compare(task, state)
    load_state_dict(task, {name: value for name, value in state.items() if name != KEY})


def compared_when_resumed(load_checkpoint, trainer, filename, *args, **kwargs):
    """Wrap Trainer.load_checkpoint, which leaves the state of the task out, to compare it: a
    training must not go on with dictionaries in which numbers mean other words."""
    compare(trainer.task, task_state(filename))
    return load_checkpoint(trainer, filename, *args, **kwargs)


def task_state(path: str) -> dict:
    """Return the state of the task in a checkpoint without reading its tensors; it is empty where
    it cannot be read, which the loading then tells."""
    try:
        return dict(torch.load(path, map_location="cpu", mmap=True)["task_state"])
    except Exception:  # a file of another kind can raise anything
        return {}


def compare(task, state: Mapping[str, Any]) -> None:
    """Refuse data with other dictionaries or another mark of pieces than a checkpoint's.

    The control of its trees is kept, for when trees come in.
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
                f"dictionary of the {side}, in which the numbers stand for other symbols; give the "
                "data of the training, or binarise others with their dictionaries (--srcdict, "
                "--tgtdict)"
            )
    mark, trained = separator_of(task), about.get("separator")
    if None not in (mark, trained) and mark != trained:
        raise InputError(
            f"{folder_of(task) / pipeline.FILE}: pieces inside a word end in '{mark}' here, but in "
            f"'{trained}' in the data that the model was trained with; put their {pipeline.FILE} "
            "back, or prepare the data again"
        )


def warn_of_control(task, control: str | None) -> None:
    """Warn once of trees of another control than those of the training; None: it is unknown."""
    trained = getattr(task, "trained_on", {}).get("control")
    if None not in (control, trained) and control != trained:
        task.trained_on["control"] = None
        logger.warning(
            "the model was trained on trees of the control '%s', but these are of the control "
            "'%s': its results say nothing about trees of the training's kind",
            trained,
            control,
        )


def check_control(task, asked: str | None) -> None:
    """Refuse a control that is not the one of stored trees, which are read as they are; without
    one, warn as `warn_of_control` does."""
    stored = control_of(task)
    if asked is None:
        return warn_of_control(task, stored)
    control = TreeControl.from_tag(asked)
    if control.tag != (stored or "own"):
        raise InputError(
            f"--tree-control {asked} is for sentences without stored trees, but the data have "
            f"trees of the control '{stored or 'own'}' ({folder_of(task)}); leave the option out, "
            f"or prepare data with posattn prepare --control {control.kind}"
        )


def dictionaries(task) -> dict[str, Dictionary]:
    """Return the dictionaries of a task; those of multilingual tasks depend on more than the
    data."""
    if isinstance(getattr(task, "vocabulary", None), Vocabulary):
        return {name: getattr(task.vocabulary, name) for name in ("words", "chars", "tags")}
    if isinstance(task, TranslationTask):
        return {"source": task.source_dictionary, "target": task.target_dictionary}
    if isinstance(task, LanguageModelingTask):
        return {"text": task.source_dictionary}
    return {}


def fingerprints(task) -> dict[str, str]:
    return {name: fingerprint(dictionary) for name, dictionary in dictionaries(task).items()}


def fingerprint(dictionary: Dictionary) -> str:
    """Return a digest of what the numbers mean."""
    return hashlib.blake2b("\n".join(dictionary.symbols).encode(), digest_size=16).hexdigest()


def separator_of(task) -> str | None:
    """Return the mark by which prepare.json joins pieces; None: there is no such file."""
    prepared = prepared_as(task)
    return None if prepared is None else prepared.separator


def control_of(task) -> str | None:
    """Return the control of the trees of the data; None: nobody has written it down."""
    prepared = prepared_as(task)
    return None if prepared is None else prepared.config.control.tag


def prepared_as(task) -> pipeline.TextPipeline | None:
    """Return how the data were prepared, if prepare.json tells; what needs it says what is wrong
    with it."""
    try:
        if hasattr(type(task), "prepared"):
            return task.prepared
        return pipeline.TextPipeline.load(folder_of(task))
    except (OSError, InputError):
        return None


def folder_of(task) -> Path:
    """Return the first folder of data."""
    data = getattr(getattr(task, "cfg", None), "data", None)
    return Path(utils.split_paths(data)[0] if data else "")
