"""The table of epoch times behaves as hardware does."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shockwave.model.errors import InputError
from shockwave.traces.profiles import PROFILES, ModelProfile, epoch_seconds

EVERY_MODEL = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


@EVERY_MODEL
def test_larger_batches_are_faster(profile: ModelProfile) -> None:
    times = [profile.epoch_seconds(size, gpus=1) for size in profile.batch_sizes]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[-1] < 5


@EVERY_MODEL
def test_more_gpus_are_faster_but_less_than_in_proportion(profile: ModelProfile) -> None:
    for size in profile.batch_sizes:
        alone = profile.epoch_seconds(size, gpus=1)
        before = alone
        for gpus in (2, 4, 8):
            if gpus > profile.max_gpus:
                break
            gang = profile.epoch_seconds(size, gpus)
            assert alone / gpus < gang < before
            before = gang


@EVERY_MODEL
def test_a_pruned_model_is_faster_but_keeps_the_overhead(profile: ModelProfile) -> None:
    size = profile.batch_sizes[0]
    whole, half = profile.epoch_seconds(size, 1), profile.epoch_seconds(size, 1, size=0.5)
    assert whole / 2 < half < whole


@EVERY_MODEL
def test_batch_sizes_double(profile: ModelProfile) -> None:
    sizes = profile.batch_sizes
    assert all(after == 2 * before for before, after in pairwise(sizes))


def test_the_step_model_by_hand() -> None:
    profile = ModelProfile("toy", 1000, 0.01, 0.001, 3_000_000, (10,))
    assert profile.epoch_seconds(10, gpus=1) == pytest.approx(100 * 0.02)
    # Two GPUs: 50 steps; 12 MB over 12 GB/s and two hops of 30 us on top.
    assert profile.epoch_seconds(10, gpus=2) == pytest.approx(50 * (0.02 + 0.001 + 0.00006))


def test_an_unknown_model_lists_the_known_ones() -> None:
    assert epoch_seconds("LM", 80, 1) == PROFILES["LM"].epoch_seconds(80, 1)
    with pytest.raises(InputError, match=r"got 'GPT-9'\)\. Known models are ResNet-50, ResNet-18"):
        epoch_seconds("GPT-9", 8, 1)
