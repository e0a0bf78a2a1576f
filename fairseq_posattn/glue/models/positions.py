"""Build the positions that an encoder or a decoder adds to fairseq's own table of positions."""

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
    """Return the positions that the encoder or the decoder really has.

    'sequence' is the default, and fairseq's flag takes it away.
    """
    chosen = PositionSpecification(text_of(cfg, side))
    if not (chosen.sequence and cfg.no_token_positional_embeddings):
        return chosen
    if len(chosen.uses) > 1:
        raise contradiction(side, chosen)
    return PositionSpecification("none")


def text_of(cfg, side: str) -> str:
    """Return the specification of a side; checkpoints of before have none of the decoder."""
    text = getattr(cfg, f"{side}_positions", None)
    return "sequence" if text is None else str(text)


def refuse_contradiction(args) -> None:
    """Refuse 'sequence' beside fairseq's flag, where a command line has both.

    fairseq calls this as the --arch of posattn_transformer: with the options that were written, as
    a Namespace, and later with all options, of which nobody knows who chose them.
    """
    flag = getattr(args, "no_token_positional_embeddings", False)
    if not (flag and isinstance(args, Namespace)):
        return
    for side in ("encoder", "decoder"):
        chosen = PositionSpecification(getattr(args, f"{side}_positions", "none"))
        if chosen.sequence:
            raise contradiction(side, chosen)


def contradiction(side: str, chosen: PositionSpecification) -> SpecificationError:
    """Return the error of a specification with 'sequence' beside fairseq's flag."""
    others = " + ".join(use.position.name for use in chosen.uses[1:])
    remedy = f"for the others alone use --{side}-positions {shlex.quote(others)}"
    return SpecificationError(
        f"{FLAG} contradicts --{side}-positions '{chosen}': "
        + (remedy if others else "leave out one of the two")
    )


class TargetPositions(nn.Module):
    """This class replaces fairseq's table in a decoder that has positions of one's own, too."""

    def __init__(self, table: nn.Module | None, added: list[Position], padding: int, longest: int):
        super().__init__()
        self.table = table
        self.added = by_name(added)
        self.padding = padding
        self.max_positions = longest if table is None else table.max_positions

    def forward(self, tokens: Tensor, incremental_state=None) -> Tensor | None:
        """Return the vectors of the positions of `tokens`, B T, as B T C or 1 T C.

        In incremental decoding only the last vectors are returned.
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
    """Give the parameters of fairseq's table the names that they have inside TargetPositions."""
    for key in [key for key in state_dict if key.startswith(f"{name}.")]:
        own = key.removeprefix(f"{name}.")
        if not own.startswith(("table.", "added.")):
            state_dict[f"{name}.table.{own}"] = state_dict.pop(key)


def by_name(positions: list[Position]) -> nn.ModuleDict:
    """Return the modules of a model's positions under their names."""
    return nn.ModuleDict({position.name: position for position in positions})
