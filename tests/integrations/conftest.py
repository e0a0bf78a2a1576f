"""transformers imports torchaudio where it is installed, which a build for CUDA does not bear."""

import sys

try:
    import torchaudio  # noqa: F401
except (ImportError, OSError):
    sys.modules["torchaudio"] = None
