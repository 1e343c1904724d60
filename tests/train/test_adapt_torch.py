"""The PyTorch side of adaptation: norms, and models that are really smaller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from shockwave.model.errors import InputError  # noqa: E402
from shockwave.train.adapt.torch_gradients import GradientMean, squared_norm  # noqa: E402
from shockwave.train.adapt.torch_pruning import (  # noqa: E402
    choose_neurons,
    hidden_widths,
    parameter_count,
    prune,
    shaped_like,
)


def mlp() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8),
        torch.nn.ReLU(),
        torch.nn.Linear(8, 6),
        torch.nn.Tanh(),
        torch.nn.Linear(6, 3),
    )


def convolutions() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(4, 6, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(6 * 4 * 4, 10),
        torch.nn.BatchNorm1d(10),
        torch.nn.ReLU(),
        torch.nn.Linear(10, 3),
    ).eval()


def test_squared_norm_is_that_of_all_gradients_together() -> None:
    model = mlp()
    assert squared_norm(model.parameters()) == 0.0
    model(torch.ones(2, 5)).sum().backward()
    expected = sum(float((p.grad.double() ** 2).sum()) for p in model.parameters())
    assert squared_norm(model.parameters()) == pytest.approx(expected, rel=1e-5)


def test_gradient_mean_is_a_mean_of_vectors_and_survives_a_preemption() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    mean = GradientMean([weight])
    assert mean.norm() == 0.0
    weight.grad = torch.tensor([3.0, 0.0])
    mean.add()
    resumed = GradientMean([weight])
    resumed.load_state_dict(mean.state_dict())
    weight.grad = torch.tensor([0.0, 4.0])
    resumed.add()
    assert resumed.norm() == pytest.approx(2.5)  # |(3, 4)| / 2 steps
    resumed.reset()
    assert resumed.norm() == 0.0


@pytest.mark.parametrize(
    ("build", "widths", "shape"),
    [(mlp, [4, 3], (7, 5)), (convolutions, [2, 3, 5], (7, 1, 8, 8))],
)
def test_pruning_equals_silencing_the_removed_neurons(
    build: Any, widths: list[int], shape: tuple[int, ...]
) -> None:
    """The smaller model computes what the large one does when those neurons reach nobody."""
    model = build()
    keep = choose_neurons(model, widths)
    smaller = prune(model, keep)
    assert hidden_widths(smaller) == widths
    silenced = build()
    readers = [m for m in silenced if isinstance(m, (torch.nn.Linear, torch.nn.Conv2d))][1:]
    with torch.no_grad():
        for reader, kept, width in zip(readers, keep, hidden_widths(model), strict=True):
            block = reader.weight.shape[1] // width
            for neuron in set(range(width)) - set(kept.tolist()):
                reader.weight[:, neuron * block : (neuron + 1) * block] = 0.0
        inputs = torch.randn(shape)
        torch.testing.assert_close(smaller(inputs), silenced(inputs))
    assert hidden_widths(model) == hidden_widths(build()), "the original is left alone"


def test_the_weakest_go_and_the_model_is_really_smaller() -> None:
    model = mlp()
    with torch.no_grad():
        for neuron in (1, 4, 6):
            model[0].weight[neuron] *= 1e-3
            model[0].bias[neuron] *= 1e-3
    keep = choose_neurons(model, [5, 6])
    assert keep[0].tolist() == [0, 2, 3, 5, 7]
    assert parameter_count(model) == 5 * 8 + 8 + 8 * 6 + 6 + 6 * 3 + 3
    assert parameter_count(prune(model, keep)) == 5 * 5 + 5 + 5 * 6 + 6 + 6 * 3 + 3


def test_a_pruned_model_can_be_trained_saved_and_loaded_into_a_fresh_one() -> None:
    smaller = prune(mlp(), [np.array([0, 3]), np.array([1, 2, 5])])
    optimizer = torch.optim.SGD(smaller.parameters(), lr=0.1)
    smaller(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    restored = shaped_like(mlp(), smaller.state_dict())
    inputs = torch.randn(4, 5)
    assert torch.equal(restored(inputs), smaller(inputs))


def test_what_cannot_be_pruned_is_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2), torch.nn.Linear(2, 1))
    with pytest.raises(InputError, match="LayerNorm"):
        choose_neurons(model, [1])
    with pytest.raises(InputError, match="2 hidden layers"):
        choose_neurons(mlp(), [1])
