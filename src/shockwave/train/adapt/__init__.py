"""The three techniques by which a job adapts while it trains.

Each is a small object that a training loop asks at epoch boundaries, and that goes into the
checkpoint (``state_dict`` and ``load_state_dict``), because jobs are preempted. The cores work
on norms and NumPy arrays; :mod:`shockwave.train.adapt.torch_gradients` and
:mod:`shockwave.train.adapt.torch_pruning` connect them to PyTorch.
"""

from shockwave.train.adapt.accordion import Accordion
from shockwave.train.adapt.noise_scale import GradientNoiseScale, NoiseScaleEstimator
from shockwave.train.adapt.pruning import LotteryTicket

__all__ = ["Accordion", "GradientNoiseScale", "LotteryTicket", "NoiseScaleEstimator"]
