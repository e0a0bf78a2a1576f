"""The rmsprop optimizer, with the defaults of Keras: a decay of 0.9 and an epsilon of 1e-7."""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II

from fairseq_posattn.core.option_values import option


@dataclass
class RMSpropConfig(FairseqDataclass):
    """Options of the rmsprop optimizer."""

    rmsprop_decay: float = option(0.9, "set the decay of the running mean square (default: 0.9)")
    rmsprop_eps: float = option(
        1e-7, "add this number to the root of the mean square (default: 1e-7)"
    )
    weight_decay: float = option(0.0, "set the coefficient of L2 regularisation (default: 0)")
    lr: Any = field(default=II("optimization.lr"))


@register_optimizer("rmsprop", dataclass=RMSpropConfig)
class RMSprop(FairseqOptimizer):
    """torch's RMSprop as a fairseq optimizer."""

    def __init__(self, cfg: RMSpropConfig, params):
        super().__init__(cfg)
        self._optimizer = torch.optim.RMSprop(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        """Return the options of torch's optimizer; they override those stored in a checkpoint."""
        lr = self.cfg.lr
        return {
            "lr": lr[0] if hasattr(lr, "__getitem__") else lr,
            "alpha": self.cfg.rmsprop_decay,
            "eps": self.cfg.rmsprop_eps,
            "weight_decay": self.cfg.weight_decay,
        }

    @property
    def supports_flat_params(self) -> bool:
        return True  # each value is updated independently of the others
