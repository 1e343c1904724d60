"""What a researcher does: make a workload, simulate it, compare policies, take the figures away.

>>> import shockwave
>>> jobs = shockwave.generate(jobs=20, seed=7)
>>> shockwave.simulate(jobs, 16, "themis").figures["jobs"]
20
>>> comparison = shockwave.compare(jobs, 16, ["fifo", "shockwave"])
>>> [figures["policy"] for figures in comparison.figures]
['fifo', 'shockwave']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shockwave.engine.rounds import Rounds
from shockwave.executors.simulation import TraceTruth
from shockwave.executors.simulation import simulate as run_simulation
from shockwave.measure import RunHistory, fold_history, summarize, write_report
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.events import Event
from shockwave.model.job import TraceJob
from shockwave.policies import registry as policies_by_name
from shockwave.policies.base import Policy
from shockwave.predict import registry as predictors_by_name
from shockwave.predict.base import Predictor
from shockwave.traces import Mix
from shockwave.traces import generate as generate_mix


def generate(jobs: int = 120, *, seed: int = 0, **knobs: Any) -> list[TraceJob]:
    """A generated workload. ``knobs`` are the fields of :class:`~shockwave.traces.mix.Mix`.

    >>> len(generate(30, gns=0.5, static=0.5, accordion=0.0, max_hours=2.0))
    30
    """
    try:
        return generate_mix(Mix(jobs=jobs, seed=seed, **knobs))
    except TypeError as error:
        raise InputError(f"no such knob of a workload: {error}") from error


@dataclass(frozen=True)
class Result:
    """One simulated run: all that happened, and the figures of it by name."""

    policy: str
    events: tuple[Event, ...]
    history: RunHistory
    figures: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Runs of several policies on one workload, by the names of the policies."""

    results: tuple[Result, ...]

    def __getitem__(self, policy: str) -> Result:
        return next(result for result in self.results if result.policy == policy)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def figures(self) -> list[dict[str, Any]]:
        """One record a policy, the same as ``shockwave simulate --json`` writes."""
        return [result.figures for result in self.results]

    def frame(self) -> Any:
        """The figures as a :class:`pandas.DataFrame`, one row a policy.

        Raises :class:`InputError` where pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise InputError("a frame needs pandas", hint="pip install pandas") from error
        return pandas.DataFrame(self.figures).set_index("policy")

    def report(self, path: str | Path, title: str = "Comparison") -> None:
        """Writes the report: one HTML file with the table and all charts."""
        write_report(path, [(result.figures, result.history) for result in self.results], title)


def simulate(
    jobs: Sequence[TraceJob],
    cluster: Cluster | int,
    policy: Policy | str = "shockwave",
    predictor: Predictor | str | None = None,
    *,
    round_seconds: float = 120.0,
    restart_seconds: float = 20.0,
    seed: int = 0,
) -> Result:
    """Runs the whole workload under a policy, given by name or as an instance of your own.

    ``cluster`` may be a number of GPUs, four on each node. The predictor is the policy's own
    unless one is given. Raises :class:`InputError` for a gang that the cluster cannot hold.
    """
    chosen = policies_by_name.create(policy, seed=seed) if isinstance(policy, str) else policy
    feeding = chosen.predictor if predictor is None else predictor
    if isinstance(feeding, str):
        feeding = predictors_by_name.create(feeding, truth=TraceTruth(jobs))
    events = run_simulation(
        jobs,
        Cluster.uniform(int(cluster), 4) if not isinstance(cluster, Cluster) else cluster,
        chosen,
        feeding,
        rounds=Rounds(round_seconds, restart_seconds),
        seed=seed,
    )
    history = fold_history(events)
    return Result(chosen.name, tuple(events), history, summarize(history))


def compare(
    jobs: Sequence[TraceJob],
    cluster: Cluster | int,
    policies: Sequence[Policy | str] | None = None,
    **settings: Any,
) -> Comparison:
    """Runs the workload under every policy; all that are known by name, if none is given.

    ``settings`` are those of :func:`simulate`.
    """
    chosen = policies_by_name.names() if policies is None else policies
    return Comparison(tuple(simulate(jobs, cluster, policy, **settings) for policy in chosen))
