"""Build the positions of an encoder or decoder, in addition to fairseq's own."""

from __future__ import annotations

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
    """Return the positions of the encoder or decoder.

    The default, 'sequence', becomes 'none' with --no-token-positional-embeddings.
    """
    chosen = PositionSpecification(text_of(cfg, side))
    if not (chosen.sequence and cfg.no_token_positional_embeddings):
        return chosen
    if len(chosen.uses) > 1:
        raise contradiction(side, chosen)
    return PositionSpecification("none")


def text_of(cfg, side: str) -> str:
    """Return the specification of a side; older checkpoints lack the decoder's."""
    text = getattr(cfg, f"{side}_positions", None)
    return "sequence" if text is None else str(text)


def refuse_contradiction(args) -> None:
    """Refuse a command line with both 'sequence' and --no-token-positional-embeddings.

    fairseq calls this as the --arch of posattn_transformer: first with a Namespace of the options
    on the command line, and later with all options, which no longer shows which ones were given.
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
    remedy = f"to use the others alone, give --{side}-positions {shlex.quote(others)}"
    return SpecificationError(
        f"{FLAG} contradicts --{side}-positions '{chosen}'; "
        + (remedy if others else "leave out one of the two")
    )


class TargetPositions(nn.Module):
    """Positions of a decoder: fairseq's own, if there are any, and added ones."""

    def __init__(self, table: nn.Module | None, added: list[Position], padding: int, longest: int):
        super().__init__()
        self.table = table
        self.added = by_name(added)
        self.padding = padding
        self.max_positions = longest if table is None else table.max_positions

    def forward(self, tokens: Tensor, incremental_state=None) -> Tensor | None:
        """Return position vectors of `tokens`, B T, as B T C or 1 T C.

        In incremental decoding, only the vectors of the last position are returned.
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
    """Rename the parameters of fairseq's positions to their names within TargetPositions."""
    for key in [key for key in state_dict if key.startswith(f"{name}.")]:
        own = key.removeprefix(f"{name}.")
        if not own.startswith(("table.", "added.")):
            state_dict[f"{name}.table.{own}"] = state_dict.pop(key)


def by_name(positions: list[Position]) -> nn.ModuleDict:
    return nn.ModuleDict({position.name: position for position in positions})
