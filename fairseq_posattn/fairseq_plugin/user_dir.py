"""Support for --user-dir in commands that are not fairseq's own programs."""

from __future__ import annotations

from argparse import Namespace

from fairseq.utils import import_user_module

from fairseq_posattn.errors import InputError


def import_user_dir(folder: str | None) -> None:
    """Import the user's code from the folder given with --user-dir."""
    try:
        import_user_module(Namespace(user_dir=folder))
    except FileNotFoundError as error:
        if error.strerror is not None:  # the user's code failed to open a file
            raise
        raise InputError(f"--user-dir {folder}: there is no such folder; check the path") from None
