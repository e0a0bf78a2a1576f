"""RMSprop as Keras has it: decay 0.9 and epsilon 1e-7, where torch's own defaults differ."""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II


@dataclass
class RMSpropConfig(FairseqDataclass):
    rmsprop_decay: float = field(
        default=0.9, metadata={"help": "how much of the mean square an update keeps"}
    )
    rmsprop_eps: float = field(
        default=1e-7, metadata={"help": "added to the root of the mean square"}
    )
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay"})
    lr: Any = field(default=II("optimization.lr"))


@register_optimizer("rmsprop", dataclass=RMSpropConfig)
class RMSprop(FairseqOptimizer):
    def __init__(self, cfg: RMSpropConfig, params):
        super().__init__(cfg)
        self._optimizer = torch.optim.RMSprop(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        """Also what overrides the options stored in a checkpoint."""
        lr = self.cfg.lr
        return {
            "lr": lr[0] if hasattr(lr, "__getitem__") else lr,
            "alpha": self.cfg.rmsprop_decay,
            "eps": self.cfg.rmsprop_eps,
            "weight_decay": self.cfg.weight_decay,
        }

    @property
    def supports_flat_params(self) -> bool:
        return True  # each number is updated by itself
