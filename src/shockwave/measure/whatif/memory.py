"""What policies remember: the past shown to them, so that they go on as if they had been there.

A state says nothing of what a policy keeps for itself: which jobs have been, what was fair to
whom. Without that it would judge the jobs that are there as if they had just come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shockwave.engine.state import SchedulerState
from shockwave.model.events import Event, JobFinished, RoundDecided
from shockwave.policies import registry as policies
from shockwave.policies.base import Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Predictor
from shockwave.predict.speeds import SpeedLearner

_SHOWN_EVERY = 1  # rounds: some policies choose at every second decision, and must keep step
_MOST_SHOWN = 400  # of these; of a longer past only the end


@dataclass
class Past:
    """The state after some events, and those who saw them happen: policies by name, a learner."""

    state: SchedulerState = field(default_factory=SchedulerState)
    policies: dict[str, Policy] = field(default_factory=dict)
    learner: SpeedLearner = field(default_factory=SpeedLearner)  # where jobs have a choice of GPUs


def recall(
    events: Iterable[Event],
    others: Sequence[str] = (),
    *,
    state: SchedulerState | None = None,
    last_seconds: float = 0.0,
) -> Past:
    """Folds the events, and shows every few rounds to the policy in force and to ``others``.

    ``state`` is that before the events, if they are not the first ones. ``last_seconds`` is the
    time of the last; what was too long before it is not shown.
    """
    past = Past(state or SchedulerState())
    predictor = predictors.create("restatement")
    seen, learned = 0, len(past.state.experience)
    for event in events:
        past.state.apply(event)
        if isinstance(event, JobFinished):
            learned += 1
        if not isinstance(event, RoundDecided):
            continue
        seen += 1
        shown_seconds = _SHOWN_EVERY * _MOST_SHOWN * past.state.rounds.round_seconds
        is_recent = event.time >= last_seconds - shown_seconds
        if is_recent and seen % _SHOWN_EVERY == 0:
            new = list(past.state.experience)[-learned:] if learned else []
            predictor.learn(new)
            learned = 0
            _show(past, predictor, others)
    return past


def _show(past: Past, predictor: Predictor, others: Sequence[str]) -> None:
    state = past.state
    run = state.run
    handles = state.table.needing_gpus()
    if run is None or not len(handles) or not state.placer.gpus:
        return
    view = state.table.view(
        handles,
        now=state.time,
        round_index=state.rounds.at(state.time),
        gpus_total=state.placer.gpus,
        round_seconds=run.round_seconds,
        restart_seconds=run.restart_seconds,
        changed=True,
    )
    forecast = predictor.forecast(view)
    if view.options is not None:
        past.learner.see(view, view.options)
    for name in {run.policy, *others}:
        policy = past.policies.get(name)
        if policy is None:
            policy = past.policies[name] = policies.create(name, seed=run.seed)
        policy.decide(view, forecast)
