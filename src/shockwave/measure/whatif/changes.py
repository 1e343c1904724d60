"""What may be different: a job more, GPUs more, a node less, another policy, other weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import Fault, NodeDrain
from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobChanged, JobSubmitted, NodeDrained, NodeUp
from shockwave.model.job import JobSpec
from shockwave.model.words import count_of
from shockwave.policies.registry import POLICIES

_NEW_NODE = "what-if-"


@dataclass(frozen=True, slots=True)
class ExtraJob:
    """Somebody submits this job now."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class MoreGpus:
    """``gpus`` more GPUs from now on, on nodes of ``per_node``; by default as large as others."""

    gpus: int
    per_node: int | None = None


@dataclass(frozen=True, slots=True)
class DrainNode:
    """A node is drained at ``at_seconds`` since the run began; its gangs go on elsewhere."""

    node: str
    at_seconds: float


@dataclass(frozen=True, slots=True)
class OtherPolicy:
    """Another policy decides from now on, fed by its own predictor."""

    policy: str


@dataclass(frozen=True, slots=True)
class TenantWeight:
    """The weight of every job of a tenant is multiplied, also of those to come."""

    tenant: str
    factor: float


Change = ExtraJob | MoreGpus | DrainNode | OtherPolicy | TenantWeight


def check(changes: Sequence[Change], state: SchedulerState) -> None:
    """Raises :class:`InputError` for what cannot be."""
    if not changes:
        raise InputError(
            "nothing would be different",
            hint="Name a job to submit, GPUs, a node to drain, a policy or a weight",
        )
    there = state.placer.gpus + sum(c.gpus for c in changes if isinstance(c, MoreGpus))
    for change in changes:
        match change:
            case ExtraJob(spec):
                if spec.gpus > there:
                    raise InputError(
                        f"there would be {count_of(there, 'GPU')}, the job needs more at once",
                        place="gpus",
                        value=spec.gpus,
                    )
            case MoreGpus():
                if change.gpus < 1 or (change.per_node is not None and change.per_node < 1):
                    raise InputError("must be at least 1", place="gpus", value=change.gpus)
            case DrainNode(node):
                known = [name for name, status in state.nodes.items() if status.up]
                if node not in known:
                    raise InputError(
                        "no such node is up",
                        place="drain",
                        value=node,
                        hint=f"Those that are: {', '.join(known[:8]) or 'none'}",
                    )
            case OtherPolicy(policy):
                POLICIES.load(policy)
            case TenantWeight(tenant, factor):
                if not 0 < factor <= 1e6:
                    raise InputError("must be above 0", place="weight", value=factor)
                if tenant not in {spec.tenant for spec in specs(state)}:
                    raise InputError("this tenant has no jobs now", place="tenant", value=tenant)


def specs(state: SchedulerState) -> list[JobSpec]:
    """Of the active jobs, in order of submission."""
    return [state.table.spec(handle) for handle in state.table.active.tolist()]


def events_now(changes: Sequence[Change], state: SchedulerState, now: float) -> Iterator[Event]:
    """What happens at once, in the order of the changes."""
    for change in changes:
        match change:
            case ExtraJob(spec):
                yield JobSubmitted(now, reweighted(changes, spec))
            case MoreGpus():
                for node in _new_nodes(change, state):
                    yield NodeUp(now, node)
            case DrainNode(node, at_seconds):
                if at_seconds <= now:
                    yield NodeDrained(now, node)
            case TenantWeight(tenant):
                for spec in specs(state):
                    if spec.tenant == tenant:
                        yield JobChanged(now, reweighted([change], spec))
            case OtherPolicy():
                pass


def faults(changes: Sequence[Change], now: float) -> list[Fault]:
    """What happens later."""
    return [
        NodeDrain(change.at_seconds, change.node)
        for change in changes
        if isinstance(change, DrainNode) and change.at_seconds > now
    ]


def reweighted(changes: Sequence[Change], spec: JobSpec) -> JobSpec:
    """With the weight that its tenant's jobs would have."""
    for change in changes:
        if isinstance(change, TenantWeight) and change.tenant == spec.tenant:
            spec = replace(spec, weight=spec.weight * change.factor)
    return spec


def _new_nodes(change: MoreGpus, state: SchedulerState) -> Iterator[Node]:
    """Of the type that most GPUs are of."""
    present = [status.node for status in state.nodes.values() if status.up]
    size = change.per_node or max((node.gpus for node in present), default=change.gpus)
    by_type: dict[str, int] = {}
    for node in present:
        by_type[node.gpu_type] = by_type.get(node.gpu_type, 0) + node.gpus
    gpu_type = max(by_type, key=lambda name: by_type[name], default="gpu")
    left, number = change.gpus, 0
    while left > 0:
        number += 1
        yield Node(f"{_NEW_NODE}{number}", min(size, left), gpu_type)
        left -= size
