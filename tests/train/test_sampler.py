"""The optimizer sees the same global batches, whatever the ranks, and however they change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.errors import InputError
from shockwave.train.sampler import Batch, ResumableSampler
from shockwave.train.share import Share


@given(
    total=st.integers(1, 60),
    batch_size=st.integers(1, 24),
    most_at_once=st.none() | st.integers(1, 8),
    drop_last=st.booleans(),
    phases=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 7)), min_size=1, max_size=6),
)
def test_any_sequence_of_sizes_makes_the_undisturbed_batches(
    total: int,
    batch_size: int,
    most_at_once: int | None,
    drop_last: bool,
    phases: list[tuple[int, int]],
) -> None:
    """``phases`` are numbers of ranks, and after how many global batches the next one comes."""
    if drop_last and total < batch_size:
        return

    def sampler(rank: int, ranks: int) -> ResumableSampler:
        return ResumableSampler(
            total,
            batch_size,
            rank=rank,
            world_size=ranks,
            most_at_once=most_at_once,
            seed=7,
            drop_last=drop_last,
        )

    epochs = 3
    alone = sampler(0, 1)
    expected = [
        sorted(samples) for _ in range(epochs) for samples in _whole(list(alone))
    ]  # the parts of a rank alone are the whole batch
    state = sampler(0, 1).state_dict()
    seen: list[list[int]] = []
    while state["epoch"] < epochs:
        ranks, batches = phases[len(seen) % len(phases)]
        ranks = min(ranks, batch_size)
        members = [sampler(rank, ranks) for rank in range(ranks)]
        for member in members:
            member.load_state_dict(state)
        taken = [_take(member, batches) for member in members]
        for parts in zip(*taken, strict=True):
            seen.append(_global_batch([part for own in parts for part in own], ranks))
            assert all(own[-1].completes for own in parts), "all ranks step together"
        states = [member.state_dict() for member in members]
        assert states == [states[0]] * ranks
        state = states[0]
    assert seen == expected
    one_epoch = [sample for batch in expected[: len(expected) // epochs] for sample in batch]
    assert len(one_epoch) == len(set(one_epoch)) == total - (total % batch_size) * drop_last


def _take(sampler: ResumableSampler, batches: int) -> list[list[Batch]]:
    """Up to so many global batches of this epoch, each as the parts of one rank."""
    taken: list[list[Batch]] = [[]]
    for batch in sampler:
        taken[-1].append(batch)
        if batch.completes:
            if len(taken) == batches:
                return taken
            taken.append([])
    return taken[:-1]


def _whole(parts: list[Batch]) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    for part in parts:
        batches[-1] += part.samples
        if part.completes:
            batches.append([])
    return batches[:-1]


def _global_batch(parts: list[Batch], ranks: int) -> list[int]:
    """The samples of all ranks; each counts as much as every other in the ranks' average."""
    counted = [part for part in parts if part.weight]
    samples = [sample for part in counted for sample in part.samples]
    for part in counted:
        assert part.weight / ranks / len(part.samples) == pytest.approx(1 / len(samples))
    return sorted(samples)


@given(
    batch_size=st.integers(1, 100),
    ranks=st.integers(1, 9),
    most_at_once=st.none() | st.integers(1, 20),
)
def test_shares_add_up_and_fit(batch_size: int, ranks: int, most_at_once: int | None) -> None:
    shares = [Share(batch_size, rank, ranks, most_at_once) for rank in range(ranks)]
    assert sum(sum(share.parts) for share in shares) == batch_size
    sizes = [share.samples for share in shares]
    assert max(sizes) - min(sizes) <= 1
    for share in shares:
        assert sum(share.parts) == share.samples
        assert max(share.parts, default=0) - min(share.parts, default=0) <= 1
        assert max(share.parts, default=0) <= (most_at_once or batch_size)
    if batch_size % ranks == 0:
        even = shares[-1].even()
        assert {even.weight(part) for part in even.parts} == {1 / len(even.parts)}
        assert sum(even.parts) == batch_size // ranks
        assert even.parts[0] <= (most_at_once or batch_size)
    else:
        with pytest.raises(InputError, match="does not divide evenly"):
            shares[0].even()


def test_a_batch_of_fewer_samples_than_ranks_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="at most 3 GPUs"):
        ResumableSampler(100, 3, world_size=4)
    fits = ResumableSampler(100, 3, world_size=3)
    with pytest.raises(InputError, match="at most 2 GPUs"):
        fits.set_batch_size(2)


def test_the_order_is_the_same_for_any_number_of_ranks_but_another_each_epoch() -> None:
    two = [ResumableSampler(10, 4, rank=rank, world_size=2) for rank in range(2)]
    alone = ResumableSampler(10, 4)
    whole = [batch.samples for batch in alone]
    shared = [[batch.samples for batch in member] for member in two]
    for both, batch in zip(zip(*shared, strict=True), whole, strict=True):
        assert [both[0][0], both[1][0]] == batch[:2]
    assert [batch.samples for batch in alone] != whole
