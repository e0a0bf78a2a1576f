"""The options of posattn average; this module does not import torch."""

from dataclasses import dataclass
from typing import ClassVar

from fairseq_posattn.files.records import at_least, option


@dataclass(frozen=True, kw_only=True)
class AverageRequest:
    """The options of posattn average."""

    command: ClassVar = "posattn average"
    run: str = option("folder with the checkpoints (--save-dir of the training run)")
    last: int = option(
        "number of most recent checkpoints to average (default: %(default)s)", 5, at_least(1)
    )
    out: str = option("write the averaged checkpoint to this file", required=True)
