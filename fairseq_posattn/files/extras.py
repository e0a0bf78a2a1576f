"""Optional dependencies of scoring, reports, probing and experiments."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_posattn.errors import InputError


@contextmanager
def lab_extra(need: str) -> Iterator[None]:
    """Convert ImportErrors in the block to InputErrors that explain how to install the extra `lab`.

    need: the beginning of the error message.

    Example:

        with lab_extra("the figures need"):
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
