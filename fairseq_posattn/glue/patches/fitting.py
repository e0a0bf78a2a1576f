"""Say in one line why the parameters of a checkpoint do not fit a model, or are no numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from omegaconf.errors import OmegaConfBaseException

from fairseq_posattn.errors import InputError

SIZES = re.compile(
    r"size mismatch for (\S+): .* torch\.Size\((.*?)\) from .* is torch\.Size\((.*?)\)"
)
NAMES = re.compile(r"(Missing|Unexpected) key\(s\) in state_dict: (\".*?\")")
OF_SYMBOLS = re.compile(r".*(embed_tokens|output_projection)\.weight")


def fit(load_ensemble, filenames, *args, **kwargs):
    """Wrap checkpoint_utils.load_model_ensemble_and_task, through which all programs load models to
    use them, to refuse parameters that do not fit or are not finite."""
    try:
        models, cfg, task = load_ensemble(filenames, *args, **kwargs)
    except RuntimeError as error:
        raise explained(error, ", ".join(map(str, filenames))) from error
    except (KeyError, OmegaConfBaseException) as error:
        raise InputError(
            f"{', '.join(map(str, filenames))}: the configuration in it is not one of a model "
            f"that is known here ({type(error).__name__}: {str(error)[:60]}); take another "
            "checkpoint, or name its folder of code with --user-dir"
        ) from error
    for path, model in zip(filenames, models, strict=True):
        refuse_not_finite(model.named_parameters(), path)
    return models, cfg, task


def fit_to_train(load_checkpoint, trainer, filename, *args, **kwargs):
    """Wrap Trainer.load_checkpoint to say which parameter of a checkpoint does not fit or is not
    finite."""
    try:
        extra = load_checkpoint(trainer, filename, *args, **kwargs)
    except Exception as error:
        reason = error.__context__
        if not isinstance(reason, RuntimeError):
            raise
    else:
        refuse_not_finite(trainer.model.named_parameters(), filename)
        return extra
    raise explained(reason, str(filename)) from reason


def with_one_dictionary(build_model, task, cfg, from_checkpoint=False):
    """Wrap FairseqTask.build_model to say how both languages get the one dictionary they need."""
    try:
        return build_model(task, cfg, from_checkpoint)
    except ValueError as error:
        if "requires a joined dictionary" not in str(error):
            raise
    raise InputError(
        f"--share-all-embeddings: {task.cfg.data} has two dictionaries; binarise the data with "
        "--joined-dictionary (posattn prepare does so without --separate), or leave it out"
    )


def explained(error: RuntimeError, path: str) -> Exception:
    """Return the error that says which parameter does not fit, or the same error if it is about
    something else."""
    if sizes := SIZES.search(str(error)):
        name, found, wanted = sizes.groups()
        if OF_SYMBOLS.fullmatch(name):
            return InputError(
                f"{path}: the model knows {first(found)} symbols ({name}), but the data have "
                f"{first(wanted)}; give the data that it was trained with, or binarise others with "
                "their dictionaries (--srcdict, --tgtdict)"
            )
        what = f"{name} has the sizes {found}, but this model needs {wanted}"
    elif names := NAMES.search(str(error)):
        what = f"{'it lacks' if names[1] == 'Missing' else 'this model does not have'} {names[2]}"
    elif "Neither args nor cfg" in str(error):
        what = "it holds no configuration"
    else:
        return error
    return InputError(
        f"{path}: the parameters do not fit: {what}; give the options that it was trained with, or "
        "take another checkpoint"
    )


def first(sizes: str) -> str:
    return sizes.strip("[]").split(",")[0]


def refuse_not_finite(named: Iterable[tuple[str, torch.Tensor]], path: object) -> None:
    """Refuse parameters that are infinite or not a number, with which nothing can be computed."""
    for name, parameter in named:
        if not torch.isfinite(parameter).all():
            raise InputError(
                f"{path}: the parameter {name} holds what is not a finite number, so its training "
                "went wrong; take an earlier checkpoint, or train again with a lower --lr"
            )
