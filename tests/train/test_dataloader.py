"""Every sample exactly once in each epoch, however often the job is preempted."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs PyTorch")

from shockwave.model.errors import InputError  # noqa: E402
from shockwave.train import session  # noqa: E402
from shockwave.train.dataloader import ResumableLoader  # noqa: E402


def numbers(count: int) -> Any:
    return torch.utils.data.TensorDataset(torch.arange(count))


def values(batch: Any) -> list[int]:
    return [int(value) for value in batch[0]]


def test_epochs_differ_and_a_seed_repeats() -> None:
    loader, again = ResumableLoader(numbers(50), 8), ResumableLoader(numbers(50), 8)
    epochs = [[values(batch) for batch in loader] for _ in range(2)]
    assert epochs == [[values(batch) for batch in again] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert len(loader) == len(epochs[0]) == 7
    for epoch in epochs:
        assert sorted(value for batch in epoch for value in batch) == list(range(50))
    other = ResumableLoader(numbers(50), 8, seed=1)
    assert [values(batch) for batch in other] != epochs[0]
    ordered = ResumableLoader(numbers(5), 2, shuffle=False)
    assert [values(batch) for batch in ordered] == [[0, 1], [2, 3], [4]]


@settings(deadline=None, max_examples=40)
@given(
    size=st.integers(4, 40),
    batch=st.integers(1, 9),
    cut=st.integers(0, 60),
    drop_last=st.booleans(),
)
def test_a_cut_anywhere_changes_nothing(size: int, batch: int, cut: int, drop_last: bool) -> None:
    if drop_last and size < batch:
        return

    def make() -> ResumableLoader:
        return ResumableLoader(numbers(size), batch, drop_last=drop_last)

    whole = make()
    expected = [values(b) for _ in range(3) for b in whole]
    first = make()
    seen: list[list[int]] = []
    while first.epoch < 3 and len(seen) < cut:
        for item in first:
            seen.append(values(item))
            if len(seen) == cut:
                break
    second = make()
    second.load_state_dict(first.state_dict())
    while second.epoch < 3:
        seen.extend(values(item) for item in second)
    assert seen == expected


def test_ranks_share_an_epoch_and_another_number_of_ranks_finishes_it() -> None:
    two = [ResumableLoader(numbers(24), 4, rank=rank, world_size=2) for rank in range(2)]
    seen: list[int] = []
    for loader in two:
        for step, batch in enumerate(loader):
            seen += values(batch)
            if step == 2:
                break
    assert two[0].state_dict() == two[1].state_dict()
    assert two[0].samples_done == 12
    for rank in range(3):
        rest = ResumableLoader(numbers(24), 4, rank=rank, world_size=3)
        rest.load_state_dict(two[0].state_dict())
        for batch in rest:
            seen += values(batch)
    assert sorted(seen) == list(range(24))


def test_it_stops_only_where_a_global_batch_is_complete(tmp_path: Path) -> None:
    """Gradients of half a batch are in no checkpoint."""
    with session(tmp_path, environment={}) as job:
        loader = ResumableLoader(numbers(24), 8, most_at_once=3, session=job)
        parts = []
        for batch in loader:
            parts.append(len(values(batch)))
            if len(parts) == 4:  # the first of the second global batch
                os.kill(os.getpid(), signal.SIGTERM)
        assert parts == [3, 3, 2] * 2
        assert loader.stopped
        assert loader.samples_done == 16


def test_the_batch_size_changes_between_epochs_only() -> None:
    loader = ResumableLoader(numbers(16), 4)
    for _ in loader:
        break
    with pytest.raises(InputError, match="between epochs"):
        loader.set_batch_size(8)
    for _ in loader:
        pass
    loader.set_batch_size(8)
    assert [len(values(batch)) for batch in loader] == [8, 8]


def test_an_epoch_that_nobody_exhausts_is_over_with_its_last_batch() -> None:
    """Frameworks that know the length never ask for one batch more."""
    loader = ResumableLoader(numbers(6), 3)
    iterator = iter(loader)
    next(iterator), next(iterator)
    assert loader.state_dict()["epoch"] == 1
    assert loader.state_dict()["samples_done"] == 0
    loader.set_batch_size(2)
    assert (loader.epoch, len(list(loader))) == (1, 3)


def test_it_stops_between_batches_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    seen = []
    with session(tmp_path, environment={}) as job:
        loader = ResumableLoader(numbers(20), 4, session=job)
        for batch in loader:
            seen += values(batch)
            if len(seen) == 8:
                os.kill(os.getpid(), signal.SIGTERM)
        assert loader.stopped
        job.save({"loader": loader.state_dict()})
    assert len(seen) == 8
    with session(tmp_path, environment={}) as job:
        loader = ResumableLoader(numbers(20), 4, session=job)
        loader.load_state_dict((job.load() or {})["loader"])
        for batch in loader:
            seen += values(batch)
        assert not loader.stopped
    assert sorted(seen) == list(range(20))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="too small"):
        ResumableLoader(numbers(3), 4, drop_last=True)
    with pytest.raises(InputError, match="too small"):
        ResumableLoader(numbers(0), 4)
    with pytest.raises(InputError, match="1 or more"):
        ResumableLoader(numbers(3), 0)
    with pytest.raises(InputError, match="seed"):
        ResumableLoader(numbers(3), 1).load_state_dict(
            ResumableLoader(numbers(3), 1, seed=2).state_dict()
        )
