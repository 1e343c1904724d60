"""Epoch times of five training jobs, from a small model of how GPUs spend their time.

The batch size ``b`` is per GPU. A job on ``g`` GPUs takes ``ceil(samples / (b * g))`` steps
an epoch, and a step takes ::

    step_seconds = overhead + b * sample_seconds * s  +  allreduce(g)
    allreduce(g) = 2 * (g - 1) / g * parameter_bytes * s / bandwidth  +  2 * (g - 1) * latency

* ``overhead``: kernel launches, the optimizer and the input pipeline, paid once a step. It
  is why large batches are faster, with diminishing returns.
* ``sample_seconds``: forward and backward pass of one sample on one GPU.
* ``allreduce``: a ring that averages the gradients over the gang; it moves almost twice the
  parameters however many GPUs there are, plus one latency per hop. It is why small batches
  scale badly.
* ``s``: the fraction of the model that is left after pruning whole channels, 1 without.

The constants are round figures of our own, of the magnitude of one data-centre GPU in
single precision with 12 GB/s between GPUs. They are no measurements; what matters to a
scheduler is that epochs take from a second to minutes, that speed grows with the batch
size by factors of 1.2 to 5, and that gangs scale less than linearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shockwave.model.errors import InputError

LINK_BYTES_PER_SECOND = 12e9
HOP_LATENCY_SECONDS = 30e-6


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What an epoch of one model is made of. Times are seconds on one GPU.

    ``batch_sizes`` double from one to the next. Beyond ``max_gpus`` more GPUs make the
    model slower rather than faster.
    """

    name: str
    samples: int
    step_overhead_seconds: float
    sample_seconds: float
    parameters: int
    batch_sizes: tuple[int, ...]
    max_gpus: int = 8

    def epoch_seconds(self, batch_size: int, gpus: int, size: float = 1.0) -> float:
        """Seconds per epoch with ``batch_size`` samples on each of ``gpus`` GPUs.

        ``size`` is the fraction of the model that pruning left.

        >>> PROFILES["ResNet-18"].epoch_seconds(batch_size=256, gpus=1)
        37.0832
        """
        steps = math.ceil(self.samples / (batch_size * gpus))
        compute_seconds = self.step_overhead_seconds + batch_size * self.sample_seconds * size
        # Rounded, so that the figure is the same bytes on every machine.
        return round(steps * (compute_seconds + self._allreduce_seconds(gpus, size)), 4)

    def _allreduce_seconds(self, gpus: int, size: float) -> float:
        parameter_bytes = 4 * self.parameters * size
        transfer_seconds = 2 * (gpus - 1) / gpus * parameter_bytes / LINK_BYTES_PER_SECOND
        return transfer_seconds + 2 * (gpus - 1) * HOP_LATENCY_SECONDS


PROFILES: dict[str, ModelProfile] = {
    profile.name: profile
    for profile in (
        ModelProfile(
            name="ResNet-50",  # images of 224 x 224, a part of ImageNet
            samples=96_000,
            step_overhead_seconds=0.025,
            sample_seconds=0.0032,
            parameters=25_600_000,
            batch_sizes=(16, 32, 64, 128),
        ),
        ModelProfile(
            name="ResNet-18",  # images of 32 x 32, all of CIFAR-10
            samples=50_000,
            step_overhead_seconds=0.010,
            sample_seconds=0.0007,
            parameters=11_200_000,
            batch_sizes=(32, 64, 128, 256),
        ),
        ModelProfile(
            name="LM",  # an LSTM on 2.1 million words in sequences of 35
            samples=59_700,
            step_overhead_seconds=0.006,
            sample_seconds=0.0003,
            parameters=19_000_000,
            batch_sizes=(5, 10, 20, 40, 80),
        ),
        ModelProfile(
            name="Transformer",  # translation, 29,000 pairs of sentences
            samples=29_000,
            step_overhead_seconds=0.022,
            sample_seconds=0.0009,
            parameters=44_000_000,
            batch_sizes=(16, 32, 64, 128),
        ),
        ModelProfile(
            name="Recommendation",  # an autoencoder over 117,000 users' ratings
            samples=117_000,
            step_overhead_seconds=0.0022,
            sample_seconds=0.000004,
            parameters=24_000_000,
            batch_sizes=(512, 1024, 2048, 4096, 8192),
            max_gpus=1,
        ),
    )
}


def epoch_seconds(model: str, batch_size: int, gpus: int) -> float:
    """Seconds per epoch from the table; :class:`InputError` if there is no such model."""
    if model not in PROFILES:
        hint = f"Known models are {', '.join(PROFILES)}"
        raise InputError("there is no profile of this model", value=model, hint=hint)
    return PROFILES[model].epoch_seconds(batch_size, gpus)
