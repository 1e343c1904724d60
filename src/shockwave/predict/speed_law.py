"""What is believed of speeds before anything was measured: curves of scaling, and how far to trust.

On ``g`` GPUs of a type that computes ``v`` times as fast, the seconds of an epoch are

    1 / (g v)  +  exchange * 2 (g - 1) / g * (across if the gang spans nodes)

times the level of the model: work that is divided, and gradients that are exchanged however many
GPUs there are. What a model spends on the exchange is open over three orders of magnitude, and
decides whether sixteen GPUs are ten times as fast as one or slower. So there is a *curve* for each
of some values of ``exchange`` and ``across``, all of them possible until measurements tell them
apart; around each curve lies a Gaussian, the covariance of this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from shockwave.model.view import Bools, Floats, Ints

STAGES = 12  # doublings of the epochs done: 0-1, 1-2, 2-4, ... epochs

# Exchange between two GPUs over the computation on one, and how much more across nodes.
_EXCHANGE = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_ACROSS = (2.0, 6.0)
_FIRST_LOSS = (0.0, 0.5)  # of the logarithm, per doubling of the GPUs, in the first epoch
_CURVES = tuple(product(_EXCHANGE, _ACROSS, _FIRST_LOSS))
CURVES = len(_CURVES)


@dataclass(frozen=True)
class SpeedSettings:
    """Standard deviations in units of the logarithm: 0.1 is about 10 %."""

    first_loss_stages: float = 1.5  # stages in which what the first epochs lose halves
    first_spread: float = 0.2  # how far a model is from its curve in that, per doubling
    level: float = 3.0  # of a model nobody has run
    type: float = 0.7  # what a type of GPU is worth to one model more than to others
    doubling: float = 0.2  # per doubling of the GPUs
    across_nodes: float = 0.3
    stage: float = 0.3  # per doubling of the GPUs, that training itself changes
    stage_memory: float = 2.0  # stages after which the change is forgotten
    job: float = 0.2  # how far one job of a model is from another, until that is learned
    job_doubling: float = 0.2  # ... and further per doubling of the GPUs
    job_type: float = 0.1  # ... and from type to type
    noise: float = 0.02  # of a measurement
    share: bool = True  # learn from other jobs of the same model


@dataclass(frozen=True)
class OptionShape:
    """What options are, as far as speeds depend on it."""

    type: Ints  # [option]
    gpus: Ints  # [option]
    spans: Bools  # [option] needs several nodes

    def __len__(self) -> int:
        return len(self.type)

    def same(self, other: OptionShape) -> bool:
        pairs = (self.type, other.type), (self.gpus, other.gpus), (self.spans, other.spans)
        return all(np.array_equal(left, right) for left, right in pairs)


def curves(shape: OptionShape, s: SpeedSettings, tastes: Floats) -> Floats:
    """[curve, option, stage] log seconds, for one GPU taking a minute; ``tastes`` of the types."""
    gpus, slower = shape.gpus.astype(np.float64), np.exp(tastes)[shape.type]
    exchange, across, lost = (np.array(values)[:, None] for values in zip(*_CURVES, strict=True))
    exchanged = exchange * 2.0 * (gpus - 1.0) / gpus * np.where(shape.spans, across, 1.0)
    steady = np.log(60.0) + np.log(slower / gpus + exchanged)
    first = lost * 0.5 ** (np.arange(STAGES) / s.first_loss_stages)  # [curve, stage]
    return np.asarray(steady[:, :, None] + first[:, None, :] * np.log2(gpus)[:, None])


def covariance_of_models(
    shape: OptionShape,
    s: SpeedSettings,
    left: tuple[Ints, Ints],
    right: tuple[Ints, Ints],
) -> Floats:
    """[left, right] between cells (option, stage) of a model."""
    (option, stage), (other, later) = left, right
    option, stage = option[:, None], stage[:, None]
    doublings = np.log2(shape.gpus)
    same_type = shape.type[option] == shape.type[other]
    fewer = np.minimum(doublings[option], doublings[other])
    both_span = shape.spans[option] & shape.spans[other]
    drift = np.exp(-np.abs(stage - later) / s.stage_memory)
    first = 0.5 ** ((stage + later) / s.first_loss_stages) * doublings[option] * doublings[other]
    alike = 0.5 + 0.5 * same_type  # half of what synchronisation costs is the model's, on any type
    return np.asarray(
        s.level**2
        + s.type**2 * same_type
        + s.doubling**2 * fewer * alike
        + s.across_nodes**2 * both_span * alike
        + s.stage**2 * drift * (0.1 + fewer)
        + s.first_spread**2 * first
    )


def covariance_by_option(shape: OptionShape, s: SpeedSettings) -> tuple[Floats, Floats]:
    """Of a model that nobody has run, between its options and as its training goes on.

    [stage, option, option] at the same stage, and [option, stage, stage] with the same option.
    """
    options, stages = np.arange(len(shape)), np.arange(STAGES)
    at_once = [(options, np.full_like(options, stage)) for stage in stages.tolist()]
    later = [(np.full_like(stages, option), stages) for option in options.tolist()]
    return (
        np.stack([covariance_of_models(shape, s, cells, cells) for cells in at_once]),
        np.stack([covariance_of_models(shape, s, cells, cells) for cells in later]),
    )


def covariance_of_jobs(shape: OptionShape, s: SpeedSettings) -> Floats:
    """[option, option] of what sets a job apart from its model: a level, and a slope."""
    doublings = np.log2(shape.gpus)
    same_type = shape.type[:, None] == shape.type
    return np.asarray(
        s.job**2
        + s.job_doubling**2 * doublings[:, None] * doublings
        + s.job_type**2 * same_type
        + s.job_type**2 * (same_type & (shape.gpus[:, None] == shape.gpus))
    )
