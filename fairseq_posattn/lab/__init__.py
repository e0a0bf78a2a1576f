"""This storey holds what one does with trained models; nothing below it imports it."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_posattn.errors import InputError


@contextmanager
def lab_extra(need: str) -> Iterator[None]:
    """Say how the extra `lab` is installed if a package that the block imports is missing.

    need: begins the message, such as "the figures need".
    """
    try:
        yield
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise InputError(
            f"{need} the package {package}: pip install 'fairseq_posattn[lab]' "
            "(in a checkout: pip install '.[lab]')"
        ) from None
