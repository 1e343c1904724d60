"""Behind the door: what people ask of jobs, groups, nodes and tenants becomes events.

It knows nothing of rounds. How new jobs come in is in :mod:`shockwave.server.reception`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import (
    CancelRequested,
    JobChanged,
    NodeDrained,
    NodeResumed,
    Request,
    TenantChanged,
)
from shockwave.model.tenants import Tenant
from shockwave.protocol.files import open_to_append
from shockwave.server import tenancy
from shockwave.server.door import Conflict
from shockwave.server.facts import JobFacts
from shockwave.server.reception import Reception
from shockwave.server.records import (
    GroupRecord,
    JobRecord,
    NodeRecord,
    Outcome,
    State,
    Submission,
    TenantChanges,
    TenantRecord,
)
from shockwave.server.requests import (
    Action,
    changed_spec,
    changed_submission,
    check_while_running,
    is_done,
    problem_with,
    request_for,
)
from shockwave.server.submissions import command_of


class Desk(Reception):
    """Takes requests and answers questions, from any thread."""

    # What people ask for.

    def cancel(self, job: str, by: str = "") -> JobRecord:
        """A job that has been cancelled is left alone."""
        facts = self._facts(job)
        if facts.state in ("finished", "failed"):
            raise Conflict(f"the job has {facts.state} already", place="job", value=facts.id)
        if facts.state != "cancelled":
            self._request(lambda: [CancelRequested(self._clock.now(), facts.id, by)])
        return self._record(facts.id)

    def act(self, action: Action, jobs: Sequence[str], by: str = "") -> list[Outcome]:
        found = {facts.id: facts for facts in map(self._facts, jobs)}
        problems = {job: problem_with(action, facts) for job, facts in found.items()}
        wanted = [
            job
            for job, facts in found.items()
            if problems[job] is None and not is_done(action, facts)
        ]
        if wanted:
            self._request(
                lambda: [request_for(action, job, self._clock.now(), by) for job in wanted]
            )
        return [
            Outcome(id=job, state=self._state_of(job, facts), problem=problems[job])
            for job, facts in found.items()
        ]

    def change(self, job: str, changes: dict[str, Any], by: str = "") -> JobRecord:
        facts = self._facts(job)
        if facts.ended:
            raise Conflict("the job is over", place="job", value=facts.id)
        submission = changed_submission(self._read_submission(facts.id), changes)
        accepted = self._accepted(submission, facts.spec.owner)
        text = accepted.model_dump_json()

        def make() -> list[Request]:
            table = self._log.state.table
            handle = table.find(facts.id)
            # One that was submitted a moment ago may not be in the table yet; it waits.
            before = facts.spec if handle is None else table.spec(handle)
            after = changed_spec(before, accepted)
            if handle is not None and self._log.state.is_running(handle):
                check_while_running(facts.id, before, after)
            return [JobChanged(self._clock.now(), after, text, by)]

        self._request(make, between_decisions=True)
        self._submission_of.cache_clear()
        return self._record(facts.id)

    def limit_group(self, group: str, parallel: int, by: str = "") -> GroupRecord:
        if not 0 <= parallel <= 1_000_000:
            raise InputError("must be 0 for no limit, or more", place="parallel", value=parallel)
        active = self._board.active(group)
        if not active:
            raise InputError("no group of this name has jobs left", place="group", value=group)

        def make() -> list[Request]:
            table, now = self._log.state.table, self._clock.now()
            handles = [table.find(facts.id) for facts in active]
            specs = [
                facts.spec if handle is None else table.spec(handle)
                for handle, facts in zip(handles, active, strict=True)
            ]
            changed = [replace(spec, group_parallel=parallel) for spec in specs]
            return [JobChanged(now, spec, by=by) for spec in changed]

        self._request(make, between_decisions=True)
        record = self._board.group(group)
        assert record is not None  # it has jobs
        return record

    def drain(self, node: str, *, resume: bool, by: str = "") -> NodeRecord:
        if node not in {record.id for record in self.nodes()}:
            raise InputError("no such node", place="node", value=node)
        kind = NodeResumed if resume else NodeDrained
        self._request(lambda: [kind(self._clock.now(), node, by)])
        return next(record for record in self.nodes() if record.id == node)

    def tenants(self) -> list[TenantRecord]:
        accounts = self._log.state.accounts
        declared = accounts.tenants | self._promised
        records = super().tenants()
        return tenancy.told(records, declared, accounts) if declared else records

    def change_tenant(self, name: str, changes: TenantChanges, by: str = "") -> None:
        """From the next round on. Raises :class:`InputError` for what makes no sense."""

        def make() -> list[Request]:
            known = self._tenant(name) or Tenant(name)
            after = self._promised[name] = tenancy.changed(known, changes, self._gpus_known)
            return [TenantChanged(self._clock.now(), after, by)]

        self._request(make)

    def report(self, job: str, generation: int, reports: Sequence[dict[str, Any]]) -> None:
        """Kept where the job itself would have written it, and read from there."""
        facts = self._facts(job)
        if facts.state != "running" or generation < facts.starts:
            raise Conflict(
                f"launch {generation} of the job is over: it is {facts.state}, and "
                f"its latest launch is {facts.starts}",
                place="generation",
                value=generation,
            )
        if generation > facts.starts:
            raise InputError("there was no such launch yet", place="generation", value=generation)
        lines = "".join(json.dumps(report, separators=(",", ":")) + "\n" for report in reports)
        path = self._files.reports(facts.id, generation)
        try:
            with open_to_append(path) as file:
                file.write(lines.encode())
        except FileNotFoundError:
            raise Conflict("the launch is not prepared yet", place="job", value=job) from None
        except OSError as error:
            problem = f"its reports cannot be written: {error.strerror or error}"
            raise Conflict(problem, place="job", value=job) from error

    def submission_of(self, job: str) -> Submission:
        """What was submitted, by id."""
        return self._submission_of(job)

    # What the executor asks for.

    def command_of(self, job: str) -> Command:
        submission = self._submission_of(job)
        code = self._belongings.code(job)
        return command_of(
            submission,
            environment=self._belongings.environment(job) if submission.env else {},
            workdir=str(code) if submission.snapshot else submission.workdir,
            token=self._tokens.token(job),
            user=(self.owner_of(job) or "") if self._as_owner else "",
        )

    def _state_of(self, job: str, before: JobFacts) -> State:
        facts = self._board.find(job)
        return before.state if facts is None else facts.state
