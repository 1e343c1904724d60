"""Norms of gradients, from PyTorch's parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def squared_norm(parameters: Iterable[torch.nn.Parameter]) -> float:
    """The squared norm of all gradients together; parameters without one count as zero."""
    total: Any = 0.0
    for parameter in parameters:
        if parameter.grad is not None:
            total = total + parameter.grad.detach().pow(2).sum()
    return float(total)


class GradientMean:
    """The mean gradient over the steps of an epoch, for Accordion.

    Call :meth:`add` after each backward pass and :meth:`norm` at the epoch's end. It costs one
    copy of the parameters. ``state_dict`` carries it across a preemption inside an epoch.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._sums: list[torch.Tensor] | None = None
        self._steps = 0

    def add(self) -> None:
        import torch

        if self._sums is None:
            self._sums = [torch.zeros_like(parameter) for parameter in self._parameters]
        for total, parameter in zip(self._sums, self._parameters, strict=True):
            if parameter.grad is not None:
                total.add_(parameter.grad.detach())
        self._steps += 1

    def norm(self) -> float:
        """The norm of the mean gradient since the last :meth:`reset`; 0 without a step."""
        if self._sums is None or self._steps == 0:
            return 0.0
        squares = sum(float(total.detach().pow(2).sum()) for total in self._sums)
        return math.sqrt(squares) / self._steps

    def reset(self) -> None:
        self._sums, self._steps = None, 0

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "sums": self._sums or []}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = int(state["steps"])
        sums = list(state["sums"])
        self._sums = (
            [
                value.to(parameter.device)
                for value, parameter in zip(sums, self._parameters, strict=True)
            ]
            if sums
            else None
        )
