"""What may be different: a job more, GPUs more, a node less, another policy, other promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import Fault, NodeDrain
from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import (
    Event,
    JobChanged,
    JobSubmitted,
    NodeDrained,
    NodeUp,
    TenantChanged,
)
from shockwave.model.job import JobSpec
from shockwave.model.tenants import Tenant, check_tenant
from shockwave.model.words import count_of
from shockwave.policies.registry import POLICIES

_NEW_NODE = "what-if-"


@dataclass(frozen=True, slots=True)
class ExtraJob:
    """Somebody submits this job now."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class MoreGpus:
    """``gpus`` more GPUs from now on, on nodes of ``per_node``; by default as large as others.

    They are of ``gpu_type``; by default of the type that most GPUs are of.
    """

    gpus: int
    per_node: int | None = None
    gpu_type: str | None = None


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
    """A tenant's weight is multiplied; where none are declared, that of its jobs, also to come."""

    tenant: str
    factor: float


@dataclass(frozen=True, slots=True)
class TenantTerms:
    """An operator promises a tenant something else: it is as this then."""

    tenant: Tenant


Change = ExtraJob | MoreGpus | DrainNode | OtherPolicy | TenantWeight | TenantTerms


def check(changes: Sequence[Change], state: SchedulerState) -> None:
    """Raises :class:`InputError` for what cannot be."""
    if not changes:
        raise InputError(
            "nothing would be different",
            hint="Name a job to submit, GPUs, a node to drain, a policy, or a tenant's weight or"
            " promises",
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
                types = {
                    *gpus_by_type(state),
                    *(c.gpu_type for c in changes if isinstance(c, MoreGpus)),
                }
                if spec.gpu_types and types.isdisjoint(spec.gpu_types):
                    raise InputError(
                        "there are no GPUs of these types",
                        place="gpu_types",
                        value=", ".join(spec.gpu_types),
                        hint=f"Those that there are: {', '.join(gpus_by_type(state))}",
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
            case TenantTerms(promised):
                check_tenant(promised)
                if promised.name not in _tenants(changes, state):
                    raise InputError(
                        "no such tenant is declared or has jobs",
                        place="tenant",
                        value=promised.name,
                        hint="`shockwave tenants` shows those that there are",
                    )


def specs(state: SchedulerState) -> list[JobSpec]:
    """Of the active jobs, in order of submission."""
    return [state.table.spec(handle) for handle in state.table.active.tolist()]


def _tenants(changes: Sequence[Change], state: SchedulerState) -> set[str]:
    """Those that a change of what they are promised can do something for."""
    extra = (change.spec for change in changes if isinstance(change, ExtraJob))
    return {*state.accounts.tenants, *(spec.tenant for spec in (*specs(state), *extra))}


def events_now(changes: Sequence[Change], state: SchedulerState, now: float) -> Iterator[Event]:
    """What happens at once, in the order of the changes."""
    for change in changes:
        match change:
            case ExtraJob(spec):
                yield JobSubmitted(now, reweighted(reweighting(changes, state), spec))
            case MoreGpus():
                yield from nodes_up(change, state, now)
            case DrainNode(node, at_seconds):
                if at_seconds <= now:
                    yield NodeDrained(now, node)
            case TenantWeight(tenant, factor):
                if state.accounts.tenants:
                    before = state.accounts.tenants.get(tenant) or Tenant(tenant)
                    yield TenantChanged(now, _heavier(before, factor))
                    continue
                for spec in specs(state):
                    if spec.tenant == tenant:
                        yield JobChanged(now, reweighted([change], spec))
            case TenantTerms(promised):
                yield TenantChanged(now, promised)
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


def reweighting(changes: Sequence[Change], state: SchedulerState) -> list[Change]:
    """Those changes by which jobs themselves weigh more; declared tenants weigh, not their jobs."""
    if state.accounts.tenants:
        return []
    return [change for change in changes if isinstance(change, TenantWeight)]


def nodes_up(change: MoreGpus, state: SchedulerState, now: float) -> Iterator[NodeUp]:
    """The nodes that there would be more."""
    present = _up(state)
    size = change.per_node or max((node.gpus for node in present), default=change.gpus)
    by_type = gpus_by_type(state)
    most = max(by_type, key=lambda name: by_type[name], default="gpu")
    gpu_type = change.gpu_type or most
    left, number = change.gpus, 0
    while left > 0:
        number += 1
        yield NodeUp(now, Node(f"{_NEW_NODE}{number}", min(size, left), gpu_type))
        left -= size


def _up(state: SchedulerState) -> list[Node]:
    return [status.node for status in state.nodes.values() if status.up]


def gpus_by_type(state: SchedulerState) -> dict[str, int]:
    """GPUs that are up, by type."""
    gpus: dict[str, int] = {}
    for node in _up(state):
        gpus[node.gpu_type] = gpus.get(node.gpu_type, 0) + node.gpus
    return gpus


def _heavier(tenant: Tenant, factor: float) -> Tenant:
    """Its weight, and where types have one of their own, those too."""
    types = tuple(
        one if one.weight is None else replace(one, weight=factor * one.weight)
        for one in tenant.types
    )
    return replace(tenant, weight=factor * tenant.weight, types=types)
