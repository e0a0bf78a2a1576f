"""Explain in one line which parameters of a checkpoint do not fit the model or are not finite."""

import re
from collections.abc import Iterable

import torch
from omegaconf.errors import OmegaConfBaseException

from fairseq_posattn.core.specification import UnknownNameError
from fairseq_posattn.errors import InputError

SIZES = re.compile(
    r"size mismatch for (\S+): .* torch\.Size\((.*?)\) from .* is torch\.Size\((.*?)\)"
)
NAMES = re.compile(r"(Missing|Unexpected) key\(s\) in state_dict: (\".*?\")")
OF_SYMBOLS = re.compile(r".*(embed_tokens|output_projection)\.weight")


def fit(load_ensemble, filenames, *args, **kwargs):
    """Wrapper for checkpoint_utils.load_model_ensemble_and_task that checks the parameters.

    All programs except fairseq-train load their models with this function. An InputError is raised
    for unregistered mechanisms, positions or tree providers, and for parameters that do not fit the
    model, or that are NaN or infinite.
    """
    names = ", ".join(map(str, filenames))
    try:
        models, cfg, task = load_ensemble(filenames, *args, **kwargs)
    except UnknownNameError as error:
        raise InputError(
            f"{names}: the model uses the {error.kind} '{error.name}', which this package does not "
            "define; pass the folder that registers it as --user-dir"
        ) from error
    except RuntimeError as error:
        raise explained(error, names) from error
    except (KeyError, OmegaConfBaseException) as error:
        raise InputError(
            f"{names}: the configuration in the checkpoint does not "
            f"describe a known model ({type(error).__name__}: {str(error)[:60]}); use another "
            "checkpoint, or pass the folder that contains the model's code as --user-dir"
        ) from error
    for path, model in zip(filenames, models, strict=True):
        refuse_not_finite(model.named_parameters(), path)
    return models, cfg, task


def fit_to_train(load_checkpoint, trainer, filename, *args, **kwargs):
    """Wrapper for Trainer.load_checkpoint that checks the parameters.

    An InputError is raised for parameters that do not fit the model, or that are NaN or infinite.
    fairseq replaces any error that occurs during loading with its own error.
    """
    try:
        extra = load_checkpoint(trainer, filename, *args, **kwargs)
    except Exception as error:
        reason = error.__context__
        if not isinstance(reason, InputError | RuntimeError):
            raise
    else:
        refuse_not_finite(trainer.model.named_parameters(), filename)
        return extra
    if isinstance(reason, InputError):
        raise reason
    raise explained(reason, str(filename)) from reason


def with_one_dictionary(build_model, task, cfg, from_checkpoint=False):
    """Wrapper for FairseqTask.build_model that explains errors caused by --share-all-embeddings."""
    try:
        return build_model(task, cfg, from_checkpoint)
    except ValueError as error:
        if "requires a joined dictionary" not in str(error):
            raise
    raise InputError(
        f"--share-all-embeddings needs a joined dictionary, but {task.cfg.data} has two; binarise "
        "the data with --joined-dictionary (posattn prepare does so unless --separate is given), "
        "or omit --share-all-embeddings"
    )


def explained(error: RuntimeError, path: str) -> Exception:
    """Return an error that names the parameter that does not fit; return other errors unchanged."""
    if sizes := SIZES.search(str(error)):
        name, found, wanted = sizes.groups()
        if OF_SYMBOLS.fullmatch(name):
            return InputError(
                f"{path}: the model's dictionary has {first(found)} symbols ({name}), but that of "
                f"the data has {first(wanted)}; use the training data, or binarise other data with "
                "the training dictionaries (--srcdict, --tgtdict)"
            )
        what = f"{name} has the shape {found}, but this model needs {wanted}"
    elif names := NAMES.search(str(error)):
        what = f"{'it lacks' if names[1] == 'Missing' else 'this model does not have'} {names[2]}"
    elif "Neither args nor cfg" in str(error):
        what = "it contains no configuration"
    else:
        return error
    return InputError(
        f"{path}: the checkpoint does not fit the model ({what}); use the options that it was "
        "trained with, or use another checkpoint"
    )


def first(sizes: str) -> str:
    return sizes.strip("[]").split(",")[0]


def refuse_not_finite(named: Iterable[tuple[str, torch.Tensor]], path: object) -> None:
    """Raise an InputError that names the first parameter with infinite or NaN values."""
    for name, parameter in named:
        if not torch.isfinite(parameter).all():
            raise InputError(
                f"{path}: the parameter {name} contains infinite or NaN values, so the training "
                "diverged; use an earlier checkpoint, or train again with a lower --lr"
            )
