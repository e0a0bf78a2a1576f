"""Optimizers: Adam with fused kernels, and RMSprop."""

# no `from __future__ import annotations`: fairseq reads the types of the options

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Optional

import torch
from fairseq import utils
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, adam, register_optimizer
from omegaconf import II
from torch import Tensor
from torch.optim.adamw import adamw

from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError

HALVES = (torch.float16, torch.bfloat16)


@dataclass
class FusedAdamConfig(adam.FairseqAdamConfig):
    """Options of the fused_adam optimizer, identical to those of adam."""


class Alike(NamedTuple):
    """The properties that parameters must share to be updated in one kernel call."""

    device: torch.device
    dtype: torch.dtype
    step: int


class FusedSteps(adam.Adam):
    """fairseq's Adam, but one call to a fused torch kernel updates many parameters.

    fairseq adds epsilon to sqrt(v), whereas torch adds it to sqrt(v / c), where c = 1 - beta2^t is
    the bias correction. Therefore epsilon / sqrt(c) is passed to torch. The kernel also scales and
    clips the gradients.

    factor: the factor by which the next step multiplies all gradients.
    """

    factor: float | Tensor = 1.0

    def __init__(self, params, **options):
        """Initialise the optimizer, and allocate the moments of parameters that are on a CPU.

        Allocating them during the first batch would fragment the memory.
        """
        super().__init__(params, **options)
        for parameter in tensors_of(self.param_groups):
            if parameter.device.type == "cpu":
                self.state_of(parameter)

    def load_state_dict(self, state_dict: dict) -> None:
        """Load the moments from a checkpoint, replacing those that the constructor allocated."""
        self.state.clear()
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(self, closure=None):
        """Update all parameters that have a gradient; return the result of `closure`, if given."""
        loss = None if closure is None else closure()
        factor, self.factor = self.factor, 1.0
        for group in self.param_groups:
            alike = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state_of(parameter)
                    state["step"] += 1
                    of_this = Alike(parameter.device, parameter.dtype, state["step"])
                    alike[of_this].append(parameter)
            for of_all, parameters in alike.items():
                if of_all.dtype in HALVES:  # through a float32 copy, one at a time
                    for parameter in parameters:
                        self.change_half(parameter, of_all, group, factor)
                else:
                    self.change(parameters, parameters, of_all, group, factor)
        return loss

    def state_of(self, parameter: Tensor) -> dict:
        """Return the state of a parameter: its moments (float32 or float64) and number of steps."""
        state = self.state[parameter]
        wide = torch.promote_types(parameter.dtype, torch.float32)
        for name in ("exp_avg", "exp_avg_sq"):
            if name not in state:
                state[name] = torch.zeros_like(parameter, dtype=wide)
            state[name] = state[name].to(parameter.device, wide)
        state.setdefault("step", 0)
        return state

    def change_half(
        self, parameter: Tensor, of_all: Alike, group: dict, factor: float | Tensor
    ) -> None:
        wide = parameter.float()
        self.change([parameter], [wide], of_all, group, factor)
        parameter.copy_(wide)

    def change(
        self,
        owners: list[Tensor],
        values: list[Tensor],
        of_all: Alike,
        group: dict,
        factor: float | Tensor,
    ) -> None:
        """Update `values` in place with the gradients and states of the parameters `owners`."""
        pairs = zip(owners, values, strict=True)
        gradients = [owner.grad.to(value) for owner, value in pairs if owner.grad is not None]
        (beta1, beta2), done = group["betas"], of_all.step - 1
        steps = torch.full((len(values),), float(done), device=of_all.device)
        adamw(
            values,
            gradients,
            exp_avgs=[self.state[owner]["exp_avg"] for owner in owners],
            exp_avg_sqs=[self.state[owner]["exp_avg_sq"] for owner in owners],
            max_exp_avg_sqs=[],
            state_steps=list(steps.unbind()),  # torch increments these
            foreach=False,
            fused=True,
            grad_scale=divisor(factor, of_all.device),
            amsgrad=False,
            maximize=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"] / math.sqrt(1 - beta2**of_all.step),
        )


def divisor(factor: float | Tensor, device: torch.device) -> Optional[Tensor]:
    """Return the value of torch's `grad_scale` that multiplies the gradients by `factor`.

    torch divides the gradients by this value. If None is returned, the gradients are not scaled.
    """
    if isinstance(factor, Tensor):
        return factor.to(device, torch.float32).reciprocal()
    if factor == 1:
        return None
    return torch.full((), 1 / factor if factor else math.inf, device=device)


@cache
def has_fused_kernel(device: str) -> bool:
    """Return whether torch has a fused kernel for a device type; torch 2.1 has none for CPUs."""
    try:
        torch.optim.AdamW([torch.zeros(1, device=device, requires_grad=True)], fused=True)
    except RuntimeError:
        return False
    return True


@register_optimizer("fused_adam", dataclass=FusedAdamConfig)
class FairseqAdam(adam.FairseqAdam):
    """fairseq's Adam with fused kernels, or fairseq's own Adam if the device has no such kernel.

    Both are equivalent up to rounding errors, and can load each other's checkpoints.

    The class has the same name as fairseq's class, because fairseq restores the optimizer state of
    a checkpoint only if the class names match.
    """

    def __init__(self, cfg: FusedAdamConfig, params):
        FairseqOptimizer.__init__(self, cfg)
        if cfg.fp16_adam_stats:
            raise InputError(
                "--fp16-adam-stats cannot be combined with --optimizer fused_adam; omit this "
                "option, or use --optimizer adam with apex"
            )
        params = list(params)
        devices = {parameter.device.type for parameter in tensors_of(params)}
        fused = all(map(has_fused_kernel, devices))
        self._optimizer = (FusedSteps if fused else adam.Adam)(params, **self.optimizer_config)

    def multiply_grads(self, c) -> None:
        """Multiply all gradients by `c` in the next step."""
        if isinstance(self._optimizer, FusedSteps):
            self._optimizer.factor = self._optimizer.factor * c
        else:
            super().multiply_grads(c)

    def clip_grad_norm(self, max_norm, aggregate_norm_fn=None) -> Tensor:
        """Return the gradient norm; the gradients are clipped to `max_norm` in the next step."""
        if not isinstance(self._optimizer, FusedSteps):
            return super().clip_grad_norm(max_norm, aggregate_norm_fn)
        factor = self._optimizer.factor
        norm = utils.clip_grad_norm_(self.params, 0, aggregate_norm_fn) * abs(factor)
        if max_norm > 0:
            self._optimizer.factor = factor * (float(max_norm) / (norm + 1e-6)).clamp(max=1)
        return norm

    def zero_grad(self) -> None:
        super().zero_grad()
        if isinstance(self._optimizer, FusedSteps):
            self._optimizer.factor = 1.0


def tensors_of(params: list) -> list[Tensor]:
    groups = [p["params"] if isinstance(p, dict) else [p] for p in params]
    return [parameter for group in groups for parameter in group]


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
    """torch's RMSprop, with the defaults of Keras: a decay of 0.9 and an epsilon of 1e-7."""

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
