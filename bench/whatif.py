"""Is a what-if right? Questions asked in the middle of simulated runs, against what really came.

    python bench/whatif.py [--cases 50] [--samples 12] [--policy shockwave] [--large]

Every case is a generated workload that is simulated twice: as it is, and with one job more that
arrives in the middle. The question is put to the state at that moment, from which neither the
rest of the workload nor the truth about any job can be seen. Compared are the finish of the extra
job with its 80 % interval, and how much later the others finish. One job more also turns decisions
round that have nothing to do with it, so single effects are mostly chance: the difference of the
means stands beside its standard error. With ``--large`` the extra job takes all GPUs for an hour,
so that what it does to the others is more than that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from shockwave.engine.journal import Journal
from shockwave.executors.simulation import simulate
from shockwave.measure.whatif import Answer, ExtraJob, Limits, ask
from shockwave.measure.whatif.memory import Past, recall
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFinished
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load

RECIPE = "generated:jobs=24,span_hours=1.5"
GPUS = 8
ASKED_AT = (0.3, 0.9)  # of the time in which jobs arrive


@dataclass(frozen=True)
class Case:
    """What was foretold and what came, in seconds."""

    seed: int
    finish: float  # of the extra job, from the moment of the question
    low: float
    middle: float
    high: float
    real_effect: float  # mean over the jobs that were there, with the extra job less without
    foretold_effect: float
    present: int
    mean_jct: float

    @property
    def is_inside(self) -> bool:
        return self.low <= self.finish <= self.high


class Everything(Journal):
    """Keeps the progress of every round too, as the journal of a scheduler does."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.events += events


def run(jobs: Sequence[TraceJob], policy: str) -> list[Event]:
    chosen = policies.create(policy)
    journal = Everything()
    predictor = predictors.create(chosen.predictor)
    simulate(jobs, Cluster.uniform(GPUS), chosen, predictor, journal=journal)
    return journal.events


def past_at(events: Sequence[Event], seconds: float) -> Past:
    """What a scheduler knew then."""
    return recall(takewhile(lambda event: event.time <= seconds, events))


def finishes(events: Sequence[Event]) -> dict[str, float]:
    return {event.job: event.time for event in events if isinstance(event, JobFinished)}


def extra_job(seed: int, at: float) -> TraceJob:
    """One like the others, from another draw of the same recipe."""
    rng = np.random.default_rng(seed)
    like = load(RECIPE, seed=10_000 + seed)[int(rng.integers(24))]
    return replace(like, spec=replace(like.spec, id="extra", arrival_seconds=at))


def large_job(at: float) -> TraceJob:
    spec = JobSpec("extra", at, GPUS, 60, (32,), (60.0,))
    return TraceJob(spec, (Regime(32, 60, 60.0),))


def measure(seed: int, policy: str, samples: int, *, large: bool) -> tuple[Case, Answer]:
    jobs = load(RECIPE, seed=seed)
    rng = np.random.default_rng(seed)
    last = max(job.spec.arrival_seconds for job in jobs)
    at = float(rng.uniform(*ASKED_AT)) * last
    extra = large_job(at) if large else extra_job(seed, at)
    without, with_extra = run(jobs, policy), run([*jobs, extra], policy)
    past = past_at(without, at)
    answer = ask(
        past.state,
        [ExtraJob(extra.spec)],
        limits=Limits(samples, 1e9),
        now=at,
        policies=past.policies,
        learner=past.learner,
        seed=seed,
    )
    there = [effect.job for effect in answer.effects if not effect.is_new]
    real, base = finishes(with_extra), finishes(without)
    arrival = {job.spec.id: job.spec.arrival_seconds for job in jobs}
    told = next(effect for effect in answer.effects if effect.is_new).finish_after
    effect = next(figure for figure in answer.figures if figure.name == "mean_jct_seconds")
    assert told is not None
    assert effect.mean_difference is not None
    case = Case(
        seed,
        real["extra"] - at,
        told.low - at,
        told.middle - at,
        told.high - at,
        float(np.mean([real[job] - base[job] for job in there])),
        effect.mean_difference,
        len(there),
        float(np.mean([real[job] - arrival[job] for job in there])),
    )
    return case, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="The seed of the first case.")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--policy", default="shockwave")
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    cases = []
    for seed in range(given.first, given.first + given.cases):
        began = time.monotonic()
        case, _ = measure(seed, given.policy, given.samples, large=given.large)
        cases.append(case)
        print(
            f"{seed:4d}  finish {case.finish:7.0f} s  told {case.low:7.0f} {case.middle:7.0f} "
            f"{case.high:7.0f} {'in ' if case.is_inside else 'OUT'}  effect real "
            f"{case.real_effect:7.1f} told {case.foretold_effect:7.1f} s on {case.present} jobs "
            f"(JCT {case.mean_jct:.0f} s)  {time.monotonic() - began:.0f} s",
            flush=True,
        )
    inside = np.mean([case.is_inside for case in cases])
    real = np.array([case.real_effect for case in cases])
    told = np.array([case.foretold_effect for case in cases])
    jct = np.array([case.mean_jct for case in cases])
    error = np.abs(told - real)
    print(f"in the 80 % interval: {inside:.0%} of {len(cases)}")
    print(
        f"effect on the others, mean over all cases: real {real.mean():.1f} s, "
        f"foretold {told.mean():.1f} s ({told.mean() / real.mean() - 1:+.1%}), difference "
        f"{(told - real).mean():.1f} +- {(told - real).std() / len(cases) ** 0.5:.1f} s"
    )
    print(
        f"mean JCT after, error of one case: median {np.median(error / jct):.2%}, "
        f"90th percentile {np.quantile(error / jct, 0.9):.2%}"
    )


if __name__ == "__main__":
    main()
