"""--user-dir for the commands that are not fairseq's own programs."""

from __future__ import annotations

from argparse import Namespace

from fairseq.utils import import_user_module

from fairseq_posattn.errors import InputError


def import_user_dir(folder: str | None) -> None:
    """Import the user's own classes, as fairseq's programs do with --user-dir."""
    try:
        import_user_module(Namespace(user_dir=folder))
    except FileNotFoundError as error:
        if error.strerror is not None:  # not the folder itself, but a file that its code opens
            raise
        raise InputError(f"--user-dir {folder}: no such folder") from None
