"""Where two runs part is found, with what was known of the jobs then."""

from __future__ import annotations

from shockwave.executors.simulation import simulate
from shockwave.measure.replay_diff import first_difference
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobStarted, RoundDecided
from shockwave.policies.base import Policy
from shockwave.policies.fifo import Fifo
from shockwave.policies.las import Las
from shockwave.predict.reactive import Reactive
from shockwave.testing.workloads import random_jobs


def run(policy: Policy) -> list[Event]:
    return list(simulate(random_jobs(4, count=12), Cluster.uniform(4), policy, Reactive()))


def test_a_run_does_not_differ_from_itself() -> None:
    assert first_difference(run(Fifo()), run(Fifo())) is None


def test_the_first_round_that_differs_is_shown_with_its_jobs() -> None:
    live, other = run(Fifo()), run(Las())
    found = first_difference(live, other)
    assert found is not None
    apart = found.live.running ^ found.simulated.running
    assert apart
    assert set(found.jobs[: len(apart)]) == apart, "those that matter come first"
    assert found.live.round == found.simulated.round
    before = [e.round for e in live if isinstance(e, RoundDecided) and e.round < found.live.round]
    assert found.alike <= len(before)
    # Up to then the same jobs were started at the same times.
    for events in (live, other):
        assert any(isinstance(e, JobStarted) and e.time <= found.live.time for e in events)
    assert found.starts is not None
    orders = [[e.job for e in events if isinstance(e, JobStarted)] for events in (live, other)]
    alike = next(n for n, (one, two) in enumerate(zip(*orders, strict=False)) if one != two)
    assert [start.job for start in found.starts] == [order[alike] for order in orders]
