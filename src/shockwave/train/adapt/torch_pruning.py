"""Structured pruning of PyTorch models: a really smaller ``nn.Sequential``.

Understands chains of ``Linear`` and ``Conv2d`` (with ``groups=1``), with batch normalisation,
activations, pooling, dropout and ``Flatten`` between them. The last weighted layer keeps its
outputs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shockwave.model.errors import InputError
from shockwave.train.adapt.pruning import Indices, neuron_scores, strongest

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class _Hidden:
    """A layer whose outputs can go: its place, the norms after it, and who reads it."""

    layer: int
    norms: tuple[int, ...]
    reader: int


def hidden_widths(model: torch.nn.Sequential) -> list[int]:
    """The number of neurons or channels of each hidden layer, in order."""
    modules = _modules(model)
    return [len(modules[hidden.layer].weight) for hidden in _hidden_layers(model)]


def choose_neurons(model: torch.nn.Sequential, widths: list[int]) -> list[Indices]:
    """For each hidden layer, which neurons or channels to keep: the strongest."""
    layers = _hidden_layers(model)
    if len(widths) != len(layers):
        raise InputError(f"the model has {len(layers)} hidden layers", place="widths", value=widths)
    return [strongest(_scores(model, layer), w) for layer, w in zip(layers, widths, strict=True)]


def prune(model: torch.nn.Sequential, keep: list[Indices]) -> torch.nn.Sequential:
    """A smaller copy of ``model``. The neurons that stay compute what they did before.

    To rewind, prune a copy of the untrained model with the same ``keep``.
    """
    smaller = copy.deepcopy(model)
    modules = _modules(smaller)
    widths = hidden_widths(model)
    for hidden, neurons, indices in zip(_hidden_layers(model), widths, keep, strict=True):
        _select(modules[hidden.layer], indices, axis=0)
        for norm in hidden.norms:
            _select_norm(modules[norm], indices)
        inputs = int(modules[hidden.reader].weight.shape[1])
        # After Flatten each channel is a block of inputs of the linear layer behind it.
        block = inputs // neurons
        columns = (indices[:, None] * block + np.arange(block)).ravel()
        _select(modules[hidden.reader], columns, axis=1)
    return smaller


def shaped_like(
    model: torch.nn.Sequential, state_dict: Mapping[str, torch.Tensor]
) -> torch.nn.Sequential:
    """A copy of ``model`` that is small enough for the state dict of a pruned one.

    Pruning changes shapes, so a fresh model must be shrunk before it can load a checkpoint.
    """
    widths = [len(state_dict[f"{hidden.layer}.weight"]) for hidden in _hidden_layers(model)]
    smaller = prune(model, [np.arange(width) for width in widths])
    smaller.load_state_dict(state_dict)
    return smaller


def parameter_count(model: torch.nn.Module) -> int:
    """How many numbers the model has."""
    return sum(int(parameter.numel()) for parameter in model.parameters())


def _modules(model: torch.nn.Sequential) -> list[Any]:
    """The layers, whose attributes PyTorch's types know nothing about."""
    return list(model)


def _hidden_layers(model: torch.nn.Sequential) -> list[_Hidden]:
    import torch

    weighted = (torch.nn.Linear, torch.nn.Conv2d)
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
    places = [index for index, module in enumerate(model) if isinstance(module, weighted)]
    for index, module in enumerate(model):
        known = isinstance(module, (*weighted, *norms)) or not list(module.parameters())
        if not known or getattr(module, "groups", 1) != 1:
            raise InputError(
                f"a {type(module).__name__} cannot be pruned around",
                place=f"module {index}",
                hint="Use a chain of Linear, Conv2d, BatchNorm and layers without parameters",
            )
    found = []
    for layer, reader in pairwise(places):
        between = tuple(i for i in range(layer + 1, reader) if isinstance(model[i], norms))
        found.append(_Hidden(layer, between, reader))
    return found


def _scores(model: torch.nn.Sequential, hidden: _Hidden) -> Any:
    modules = _modules(model)
    incoming = _array(modules[hidden.layer].weight)
    neurons = len(incoming)
    incoming = incoming.reshape(neurons, -1)
    for norm in hidden.norms:
        if modules[norm].weight is not None:
            # Behind a normalisation its scale decides how much of a channel comes through.
            lengths = np.linalg.norm(incoming, axis=1, keepdims=True)
            incoming = incoming / np.maximum(lengths, 1e-12)
            incoming = incoming * np.abs(_array(modules[norm].weight))[:, None]
    outgoing = _array(modules[hidden.reader].weight)
    outgoing = outgoing.reshape(len(outgoing), neurons, -1)
    return neuron_scores(incoming, outgoing.transpose(0, 2, 1).reshape(-1, neurons))


def _array(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


def _select(layer: Any, indices: Indices, *, axis: int) -> None:
    import torch

    chosen = torch.as_tensor(indices, device=layer.weight.device)
    layer.weight = torch.nn.Parameter(layer.weight.detach().index_select(axis, chosen))
    if axis == 0 and layer.bias is not None:
        layer.bias = torch.nn.Parameter(layer.bias.detach().index_select(0, chosen))
    outputs, inputs = layer.weight.shape[:2]
    if isinstance(layer, torch.nn.Linear):
        layer.out_features, layer.in_features = outputs, inputs
    else:
        layer.out_channels, layer.in_channels = outputs, inputs


def _select_norm(norm: Any, indices: Indices) -> None:
    import torch

    reference = norm.weight if norm.weight is not None else norm.running_mean
    chosen = torch.as_tensor(indices, device=None if reference is None else reference.device)
    for name in ("weight", "bias"):
        if getattr(norm, name) is not None:
            value = getattr(norm, name).detach().index_select(0, chosen)
            setattr(norm, name, torch.nn.Parameter(value))
    for name in ("running_mean", "running_var"):
        if getattr(norm, name) is not None:
            setattr(norm, name, getattr(norm, name).index_select(0, chosen))
    norm.num_features = len(indices)
