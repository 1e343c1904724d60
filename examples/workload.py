"""The small problem that the PyTorch examples share: data made on the spot, and a network."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

CLASSES = 10
FEATURES = 20
TRAIN_SAMPLES = 4096
TEST_SAMPLES = 4096


@dataclass(frozen=True)
class Outcome:
    """How a training ended. ``parameters`` is the size of the final model."""

    accuracy: float
    loss: float
    epochs: int
    steps: int
    parameters: int


Batch = tuple[torch.Tensor, torch.Tensor]


class Samples(Dataset[Any]):  # type: ignore[misc, unused-ignore]
    """Inputs and labels in memory; whole batches are taken at once instead of by sample."""

    def __init__(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        self.inputs = inputs
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, indices: list[int]) -> Batch:
        return self.inputs[indices], self.labels[indices]


def as_it_is(batch: Batch) -> Batch:
    """The ``collate_fn`` for :class:`Samples`: its batches are put together already."""
    return batch


def make_data(seed: int) -> tuple[Samples, Samples]:
    """Classes that overlap and that no linear model can tell apart: (training, test)."""
    generator = torch.Generator().manual_seed(1000 + seed)
    centres = 1.5 * torch.randn(3 * CLASSES, FEATURES, generator=generator)
    cluster = torch.randint(3 * CLASSES, (TRAIN_SAMPLES + TEST_SAMPLES,), generator=generator)
    inputs = centres[cluster] + 1.6 * torch.randn(len(cluster), FEATURES, generator=generator)
    labels = cluster % CLASSES
    return (
        Samples(inputs[:TRAIN_SAMPLES], labels[:TRAIN_SAMPLES]),
        Samples(inputs[TRAIN_SAMPLES:], labels[TRAIN_SAMPLES:]),
    )


def make_model(seed: int, width: int = 64) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, CLASSES),
    )


def accuracy(model: torch.nn.Module, data: Samples) -> float:
    """The share of samples that are classified correctly."""
    with torch.no_grad():
        return float((model(data.inputs).argmax(dim=1) == data.labels).float().mean())


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def state_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict of everything that must survive a preemption."""
    return {name: part.state_dict() for name, part in parts.items()}


def restore(parts: Mapping[str, Any], state: Mapping[str, Any] | None) -> None:
    """Brings everything back to a saved state, if there is one."""
    if state is not None:
        for name, part in parts.items():
            part.load_state_dict(state[name])


def arguments(description: str, epochs: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--static", action="store_true", help="train without adaptation")
    torch.set_num_threads(1)
    return parser.parse_args()


def show(outcome: Outcome) -> None:
    print(json.dumps(asdict(outcome)))
