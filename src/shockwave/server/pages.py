"""Documents of the API that hold records: pages of them, and batches of reports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from shockwave.server.records import JobRecord, NodeRecord, RoundRecord, Size, TenantRecord

_LARGEST = 2**53  # beyond, numbers of JSON are not exact everywhere
Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=_LARGEST)]


class _Page(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JobPage(_Page):
    """Jobs in order of submission. `next` is the `after` of the next page, null on the last."""

    items: list[JobRecord]
    next: str | None


class RoundPage(_Page):
    """Decisions in order. `next` is the `after` of the next page, null on the last."""

    items: list[RoundRecord]
    next: int | None


class NodeList(_Page):
    items: list[NodeRecord]


class TenantList(_Page):
    items: list[TenantRecord]


class Me(_Page):
    """Who asks. `user` is empty for the operator's token, which belongs to no user."""

    user: str
    operator: bool
    tenant: str
    runs_as: str = Field(description="The user that your jobs run as.")


class Status(_Page):
    """Whether the service is well, and if not, why."""

    status: Literal["ok"]
    detail: str = ""


class Report(TypedDict, total=False):
    """One line of a job's report: what it did, and in which configuration.

    A typed dictionary, because five thousand of them a second are validated and handed on.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    time: Annotated[Finite, Field(ge=0, le=1e11, description="Unix seconds.")]
    event: Annotated[
        Literal["started", "epoch", "regime", "saved", "metrics", "link", "stopped", "done"],
        Field(description="What happened."),
    ]
    epoch: Annotated[Finite, Field(ge=0, le=1e9, description="Epochs done since the beginning.")]
    configuration: Annotated[Size | None, Field(description="Batch size or model size in use.")]
    samples: Count | None
    loss: Finite | None
    metrics: Annotated[
        dict[str, Finite | None], Field(description="Figures by name.", max_length=64)
    ]
    name: Annotated[str, Field(description="Of a link.", max_length=128)]
    url: Annotated[str, Field(description="Of a link: http, https.", max_length=2000)]
    seconds: Annotated[
        Annotated[Finite, Field(ge=0)] | None, Field(description="That the epoch took.")
    ]


class Reports(BaseModel):
    """A batch of reports of one launch of a job."""

    model_config = ConfigDict(extra="forbid")

    generation: int = Field(ge=0, le=_LARGEST, description="The launch, `SHOCKWAVE_GENERATION`.")
    reports: list[Report] = Field(max_length=10_000)
