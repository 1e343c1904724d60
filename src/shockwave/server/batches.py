"""Several jobs in one request: documents of one file, or the jobs of a sweep.

What one job of a batch says of another by name is settled here; a name that the batch does not
have is one of an earlier job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shockwave.model.errors import InputError
from shockwave.model.job import JobSpec
from shockwave.server.facts import JobFacts
from shockwave.server.jobfile import checked_submission
from shockwave.server.records import Name, Submission
from shockwave.server.submissions import spec_of, stored

MOST_JOBS = 10_000  # in one batch


class Batch(BaseModel):
    """Jobs that are submitted together, all or none.

    Every job has the fields of ``common``, and its own, which win. With ``group`` they are a
    group of that name, of which at most ``parallel`` run at once; 0 is no limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    common: dict[str, Any] = Field(default_factory=dict)
    jobs: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_JOBS)
    group: Name | None = None
    parallel: int = Field(0, ge=0, le=1_000_000)

    def submissions(self) -> list[Submission]:
        """Raises :class:`InputError` that names the job and the field."""
        return [
            checked_submission(self.common | fields, f"job {number}")
            for number, fields in enumerate(self.jobs, start=1)
        ]


class BatchRecord(BaseModel):
    """The ids of jobs that were submitted together, and of their group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str | None
    jobs: list[str]


@dataclass(frozen=True, slots=True)
class Planned:
    """A job whose dependencies are settled: ids of active jobs, or positions in its batch."""

    submission: Submission
    text: str
    after: tuple[str | int, ...] = ()
    after_any: tuple[str | int, ...] = ()

    def spec(
        self, arrival_seconds: float, ids: Sequence[str], group: str, parallel: int
    ) -> JobSpec:
        """``ids`` are those of the batch up to this job's own, the last."""

        def settled(jobs: tuple[str | int, ...]) -> tuple[str, ...]:
            return tuple(ids[job] if isinstance(job, int) else job for job in jobs)

        return replace(
            spec_of(ids[-1], arrival_seconds, self.submission),
            group=group,
            group_parallel=parallel if group else 0,
            after=settled(self.after),
            after_any=settled(self.after_any),
        )


def planned(submissions: Sequence[Submission], find: Callable[[str], JobFacts]) -> list[Planned]:
    """``find`` looks up an earlier job by id or name, and raises :class:`InputError`.

    So does this, for a job that needs another one which has ended without finishing.
    """
    positions: dict[str, list[int]] = {}
    plans = []
    for position, submission in enumerate(submissions):
        plans.append(
            Planned(
                submission,
                stored(submission).model_dump_json(),
                _settled(submission.after, positions, find, must_finish=True),
                _settled(submission.after_any, positions, find, must_finish=False),
            )
        )
        if submission.name is not None:
            positions.setdefault(submission.name, []).append(position)
    return plans


def _settled(
    names: Sequence[str],
    positions: Mapping[str, list[int]],
    find: Callable[[str], JobFacts],
    *,
    must_finish: bool,
) -> tuple[str | int, ...]:
    place = "after" if must_finish else "after_any"
    settled: list[str | int] = []
    for name in dict.fromkeys(names):
        if name in positions:
            settled += positions[name]  # all jobs of that name: of a sweep, for instance
            continue
        try:
            facts = find(name)
        except InputError as error:
            raise InputError(error.problem, place=place, value=name, hint=error.hint) from error
        if not facts.ended:
            settled.append(facts.id)
        elif must_finish and facts.state != "finished":
            raise InputError(
                f"that job was {facts.state}, so this one could never start"
                if facts.state == "cancelled"
                else f"that job has {facts.state}, so this one could never start",
                place=place,
                value=name,
                hint="Leave it out, or use after_any",
            )
    return tuple(settled)
