"""What-if over HTTP: the question, and the answer before and after."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from shockwave.engine.state import SchedulerState
from shockwave.measure.whatif import (
    Answer,
    Change,
    DrainNode,
    ExtraJob,
    Interval,
    MoreGpus,
    OtherPolicy,
    TenantTerms,
    TenantWeight,
)
from shockwave.measure.whatif.changes import gpus_by_type
from shockwave.model.errors import InputError
from shockwave.model.event_records import spec_of_record
from shockwave.model.job import JobSpec
from shockwave.model.tenants import Tenant
from shockwave.policies.registry import POLICIES
from shockwave.server.records import Submission, TenantChanges
from shockwave.server.tenancy import changed

NEW_JOB = "new-"  # ids of jobs that are only asked about
ASSUMPTIONS = (
    "what jobs will still do is drawn from what is predicted of them; speeds that were measured "
    "are kept, also by type and number of GPUs, and those never measured are drawn",
    "jobs keep coming at the latest rate, for a time drawn in proportion to how long they have",
    "nothing fails: no crash, no lost node, nobody cancels or changes a job",
    "what others hold of the nodes they keep; which nodes a job may use is not looked at",
    "far ahead, and sooner the more jobs there are, rounds are longer, so far times are less exact",
)
_Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class WhatIfDrain(_Model):
    """A node that is drained."""

    node: _Name
    at: float | None = Field(None, ge=0, le=1e11)
    """When, in unix seconds; now if it is left out."""


class WhatIfQuestion(_Model):
    """What would be different. All that is given applies at once; something must be."""

    submit: list[Submission] = Field(default_factory=list, max_length=64)
    """Jobs that would be submitted now, written as for `POST /jobs`."""
    more_gpus: int | None = Field(None, ge=1, le=100_000)
    """So many GPUs more."""
    gpu_type: _Name | None = None
    """Of this type; of the one that most are of if it is left out."""
    gpus_per_node: int | None = Field(None, ge=1, le=1024)
    """On nodes of this size; as large as the largest that is there if it is left out."""
    drain: list[WhatIfDrain] = Field(default_factory=list, max_length=1000)
    """Nodes that would be drained; their jobs go on elsewhere."""
    policy: _Name | None = Field(None, examples=[*POLICIES.built_in])
    """Another policy, by name, from now on."""
    tenant_weights: dict[_Name, Annotated[float, Field(gt=0, le=1e6)]] = Field(
        default_factory=dict, max_length=1000
    )
    """By tenant: what its weight is multiplied by, as in 2 for twice; where no tenants are
    declared, the weight of each of its jobs."""
    tenants: dict[_Name, TenantChanges] = Field(default_factory=dict, max_length=1000)
    """What tenants would be promised instead, as for `PATCH /tenants/{tenant}`."""
    samples: int = Field(16, ge=5, le=200)
    """Futures that are rolled forward, or as many as the scheduler's limit of time allows."""
    seed: int = Field(0, ge=0, le=2**32)
    """The same question with the same seed about the same state has the same answer."""


class WhatIfInterval(_Model):
    """The middle of all samples, and what four in five of them lie between."""

    low: float
    middle: float
    high: float


class WhatIfFigure(_Model):
    """A figure of the jobs that are there now, without and with the change."""

    name: str
    """`makespan_seconds` (until all of them have finished), `mean_jct_seconds`,
    `worst_ftf_themis` (finish-time fairness), `unfair_fraction_themis` (share above 1.05)."""
    unit: str
    before: WhatIfInterval | None
    after: WhatIfInterval | None
    difference: WhatIfInterval | None
    """After less before in each sample: narrower than the two intervals suggest."""
    mean_difference: float | None
    """Over the samples: the best guess at the effect."""


class WhatIfJob(_Model):
    """What becomes of one job. Times are unix seconds; a running job has no start to come."""

    id: str
    name: str = ""
    """Empty for jobs of others."""
    owner: str = ""
    tenant: str = ""
    gpus: int = 0
    is_new: bool
    """Whether it is one of those that would be submitted."""
    start_before: WhatIfInterval | None
    start_after: WhatIfInterval | None
    finish_before: WhatIfInterval | None
    finish_after: WhatIfInterval | None
    later_seconds: WhatIfInterval | None
    """Finish after less before; negative where the job would end earlier."""
    is_affected: bool


class WhatIfRecord(_Model):
    """The answer. Times are unix seconds."""

    now: float
    """The present that was rolled forward from."""
    samples: int
    """Futures that there was time for."""
    figures: list[WhatIfFigure]
    jobs: list[WhatIfJob]
    """Those that would be submitted, then all affected ones that you may see, most first."""
    hidden: int
    """Jobs that are affected, but not yours to see."""
    unaffected: int
    never: list[str]
    """Ids of jobs that would not finish: held ones, for instance."""
    guessed: int
    """Jobs whose length is not known before their first epoch has ended."""
    assumptions: list[str]


def check_question(question: WhatIfQuestion) -> None:
    """Raises :class:`InputError` for what is wrong whatever the state is."""
    for place, given in (
        ("gpus_per_node", question.gpus_per_node),
        ("gpu_type", question.gpu_type),
    ):
        if given is not None and question.more_gpus is None:
            raise InputError("is of no use without more_gpus", place=place, value=given)
    if not question.model_dump(exclude_defaults=True, exclude={"samples", "seed"}):
        raise InputError(
            "nothing would be different",
            hint="Name a job to submit, GPUs, a node to drain, a policy, or a tenant's weight or"
            " promises",
        )
    if question.policy is not None:
        POLICIES.provider(question.policy)


def changes_of(
    question: WhatIfQuestion, specs: list[JobSpec], state: SchedulerState, origin_unix: float
) -> list[Change]:
    """What is asked of this state, in the terms of the simulator; ``specs`` are of ``submit``."""
    check_question(question)
    changes: list[Change] = []
    tenants = state.accounts.tenants
    if question.more_gpus is not None:
        changes.append(MoreGpus(question.more_gpus, question.gpus_per_node, question.gpu_type))
    if question.policy is not None:
        changes.append(OtherPolicy(question.policy))
    changes += [
        TenantTerms(changed(tenants.get(name) or Tenant(name), said, gpus_by_type(state)))
        for name, said in question.tenants.items()
    ]
    changes += [TenantWeight(name, factor) for name, factor in question.tenant_weights.items()]
    changes += [
        DrainNode(drain.node, 0.0 if drain.at is None else drain.at - origin_unix)
        for drain in question.drain
    ]
    changes += [ExtraJob(spec) for spec in specs]
    return changes


def record_of(answer: Answer, specs: dict[str, JobSpec], origin_unix: float) -> WhatIfRecord:
    """The whole answer, for somebody who may see everything."""

    def moment(interval: Interval | None) -> WhatIfInterval | None:
        return _interval(interval, origin_unix)

    jobs = [
        WhatIfJob(
            id=effect.job,
            name=specs[effect.job].name,
            owner=specs[effect.job].owner,
            tenant=specs[effect.job].tenant,
            gpus=specs[effect.job].gpus,
            is_new=effect.is_new,
            start_before=moment(effect.start_before),
            start_after=moment(effect.start_after),
            finish_before=moment(effect.finish_before),
            finish_after=moment(effect.finish_after),
            later_seconds=_interval(effect.later_seconds),
            is_affected=effect.is_affected,
        )
        for effect in answer.effects
        if effect.is_affected
    ]
    return WhatIfRecord(
        now=origin_unix + answer.now,
        samples=answer.samples,
        figures=[
            WhatIfFigure(
                name=figure.name,
                unit=figure.unit,
                before=_interval(figure.before),
                after=_interval(figure.after),
                difference=_interval(figure.difference),
                mean_difference=figure.mean_difference,
            )
            for figure in answer.figures
        ],
        jobs=jobs,
        hidden=0,
        unaffected=len(answer.effects) - len(jobs),
        never=list(answer.never),
        guessed=answer.guessed,
        assumptions=list(ASSUMPTIONS),
    )


def specs_of_records(records: list[dict[str, Any]]) -> list[JobSpec]:
    return [spec_of_record(record) for record in records]


def _interval(interval: Interval | None, shift: float = 0.0) -> WhatIfInterval | None:
    if interval is None:
        return None
    low, middle, high = (shift + part for part in (interval.low, interval.middle, interval.high))
    return WhatIfInterval(low=low, middle=middle, high=high)
