"""Define the options of the model attention_s2s."""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

POSITIONAL, CONTENT, NONE = ATTENTIONS = ("positional", "content", "none")
ENCODER, ZEROS = STARTS = ("encoder", "zeros")


@dataclass
class AttentionS2SConfig(FairseqDataclass):
    """These are the options of the model attention_s2s."""

    attention: ChoiceEnum(ATTENTIONS) = field(  # type: ignore[valid-type]  # fairseq calls it
        default=POSITIONAL,
        metadata={"help": "choose what the decoder's attention to the source depends on"},
    )
    width: int = field(
        default=128, metadata={"help": "set the width of embeddings and LSTM states"}
    )
    layers: int = field(
        default=1, metadata={"help": "set the number of layers of the encoder and of the decoder"}
    )
    dropout: float = field(
        default=0.3,
        metadata={"help": "set the dropout of embeddings, between layers, and before the output"},
    )
    decoder_start: Optional[ChoiceEnum(STARTS)] = field(  # type: ignore[valid-type]  # fairseq calls it
        default=None,
        metadata={
            "help": "let the decoder start from the encoder's last state, or from zeros; the "
            "default is zeros with attention, and the encoder's state without"
        },
    )
    states_only: bool = field(
        default=False,
        metadata={
            "help": "attend to the LSTM's states alone, without adding the embeddings to them"
        },
    )
    position_width: int = field(
        default=20,
        metadata={
            "help": "set the width of the LSTM that finds the positions (positional attention)"
        },
    )
    clamp: ChoiceEnum(["none", "unit"]) = field(  # type: ignore[valid-type]  # fairseq calls it
        default="none",
        metadata={"help": "leave mu as it is, or clamp it to [0, 1] (positional attention)"},
    )
    sigma_floor: float = field(
        default=0.0, metadata={"help": "set the smallest sigma allowed (positional attention)"}
    )
    epsilon: float = field(
        default=1e-3, metadata={"help": "add this number to 2 sigma^2 (positional attention)"}
    )
    max_source_positions: int = field(
        default=1024, metadata={"help": "set the maximal number of pieces of a source sentence"}
    )
    max_target_positions: int = field(
        default=1024, metadata={"help": "set the maximal number of pieces of a target sentence"}
    )
