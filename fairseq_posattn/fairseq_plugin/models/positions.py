"""Positional encodings of the encoder and decoder, instead of or in addition to fairseq's."""

import shlex
from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.core.attention import AttentionContext
from fairseq_posattn.core.positions import (
    Position,
    PositionSpecification,
    joined,
)
from fairseq_posattn.core.specification import SpecificationError

FLAG = "--no-token-positional-embeddings"


def positions_in_use(cfg, side: str) -> PositionSpecification:
    """Return the position specification of the encoder or decoder.

    With --no-token-positional-embeddings, the default 'sequence' becomes 'none'.
    """
    chosen = PositionSpecification(text_of(cfg, side))
    if not (chosen.sequence and cfg.no_token_positional_embeddings):
        return chosen
    if len(chosen.uses) > 1:
        raise contradiction(side, chosen)
    return PositionSpecification("none")


def text_of(cfg, side: str) -> str:
    """Return the value of --encoder-positions or --decoder-positions.

    In older checkpoints, the decoder's value is missing and defaults to 'sequence'.
    """
    text = getattr(cfg, f"{side}_positions", None)
    return "sequence" if text is None else str(text)


def refuse_contradiction(args) -> None:
    """Raise an error if --no-token-positional-embeddings is combined with 'sequence'.

    fairseq calls this function as the architecture function of posattn_transformer. The first call
    receives a Namespace with the options of the command line. Later calls receive all options and
    check nothing, because they cannot tell which options the user has set.
    """
    flag = getattr(args, "no_token_positional_embeddings", False)
    if not (flag and isinstance(args, Namespace)):
        return
    for side in ("encoder", "decoder"):
        chosen = PositionSpecification(getattr(args, f"{side}_positions", "none"))
        if chosen.sequence:
            raise contradiction(side, chosen)


def contradiction(side: str, chosen: PositionSpecification) -> SpecificationError:
    """Return the error for 'sequence' combined with --no-token-positional-embeddings."""
    others = " + ".join(use.position.name for use in chosen.uses[1:])
    remedy = f"to use the other positions alone, pass --{side}-positions {shlex.quote(others)}"
    return SpecificationError(
        f"{FLAG} contradicts --{side}-positions '{chosen}'; "
        + (remedy if others else "use only one of them")
    )


class TargetPositions(nn.Module):
    """The decoder's positions, which combine fairseq's own (if used) with additional ones."""

    def __init__(self, table: nn.Module | None, added: list[Position], padding: int, longest: int):
        super().__init__()
        self.table = table
        self.added = by_name(added)
        self.padding = padding
        self.max_positions = longest if table is None else table.max_positions

    def forward(self, tokens: Tensor, incremental_state=None) -> Tensor | None:
        """Return the position vectors of `tokens`, which have the shape (B, T).

        The result has the shape (B, T, C) or (1, T, C). In incremental decoding, only the vectors
        of the last position are returned.
        """
        sequence = None
        if self.table is not None:
            sequence = self.table(tokens, incremental_state=incremental_state)
        real = tokens.ne(self.padding)
        ctx = AttentionContext(
            tokens.size(1),
            tokens.device,
            None if real.all() else real,
            queries=tokens.size(1) if incremental_state is None else 1,
            causal=True,
        )
        return joined(sequence, self.added.values(), ctx)


def take_over_table(state_dict: dict, name: str) -> None:
    """Rename the parameters of fairseq's positional embeddings to match TargetPositions."""
    for key in [key for key in state_dict if key.startswith(f"{name}.")]:
        own = key.removeprefix(f"{name}.")
        if not own.startswith(("table.", "added.")):
            state_dict[f"{name}.table.{own}"] = state_dict.pop(key)


def by_name(positions: list[Position]) -> nn.ModuleDict:
    return nn.ModuleDict({position.name: position for position in positions})
