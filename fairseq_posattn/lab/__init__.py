"""Scoring, reports, probing and experiments; the rest of the package does not import this part."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_posattn.errors import InputError


@contextmanager
def lab_extra(need: str) -> Iterator[None]:
    """Turn an ImportError in the block into an InputError that says how to install the extra `lab`.

    Example:

        with lab_extra("the figures need"):  # the beginning of the message
            import matplotlib
    """
    try:
        yield
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise InputError(
            f"{need} the package {package}; install it with pip install 'fairseq_posattn[lab]' "
            "(in a checkout: pip install '.[lab]')"
        ) from None
