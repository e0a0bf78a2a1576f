"""The version of the package and of its code, which is stored with results."""

import os
import subprocess
from functools import cache
from pathlib import Path

__version__ = "0.3.0"
CHECKOUT = Path(__file__).resolve().parents[2]


@cache
def code_version() -> str:
    """Return the version of the package, for instance 0.2.0.

    In a Git checkout, the version includes the commit: 0.2.0+1a2b3c4d5e. The suffix `.changed`
    indicates uncommitted changes.
    """
    if not (CHECKOUT / ".git").exists():
        return __version__
    command = ["git", "-C", str(CHECKOUT), "describe", "--always", "--abbrev=10"]
    try:
        described = subprocess.run(
            [*command, "--exclude=*", "--dirty=.changed"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__}+{described.stdout.strip()}"
