"""Many jobs in one request: what a file with several documents or a matrix makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shockwave.cli.client import Client, print_json
from shockwave.cli.console import console, note

if TYPE_CHECKING:
    from shockwave.server.jobfile import JobDocument

Jobs = list[dict[str, Any]]
Submitted = list[dict[str, Any]]  # {"group": ..., "jobs": [ids]} for each request


def submit_documents(
    client: Client, documents: Sequence[JobDocument], key: str | None = None
) -> Submitted:
    """Documents in a row go together; one with a matrix is a group, and goes on its own.

    ``after`` may name jobs of earlier documents.
    """
    done: Submitted = []
    ids: dict[str, list[str]] = {}  # of jobs of earlier requests, by name
    for number, (group, parallel, jobs) in enumerate(_requests(documents)):
        for job in jobs:
            for field in ("after", "after_any"):
                names = job.get(field, ())
                job[field] = [job_id for name in names for job_id in ids.get(name, [name])]
        body = {**_with_common_apart(jobs), "group": group, "parallel": parallel}
        headers = None if key is None else {"Idempotency-Key": f"{key}/{number}"}
        record = client.post("batches", body=body, headers=headers)
        done.append(record)
        for job, job_id in zip(jobs, record["jobs"], strict=True):
            if job["name"] is not None:
                ids.setdefault(job["name"], []).append(job_id)
        if group is not None:
            ids.setdefault(group, []).extend(record["jobs"])
    return done


def tell(submitted: Submitted, as_json: bool) -> None:
    """A group by its id, other jobs by theirs."""
    if as_json:
        print_json(submitted)
        return
    for record in submitted:
        if record["group"] is None:
            for job in record["jobs"]:
                console.print(job, markup=False)
            continue
        console.print(record["group"], markup=False)
        count = len(record["jobs"])
        note(
            f"{count} {'job' if count == 1 else 'jobs'}. How far they are: "
            f"shockwave queue --group {record['group']}"
        )


def _requests(documents: Sequence[JobDocument]) -> list[tuple[str | None, int, Jobs]]:
    """(group, parallel, jobs) of each; everything is checked before the first is sent."""
    from shockwave.server.jobfile import JobDocument
    from shockwave.server.matrix import expand

    requests: list[tuple[str | None, int, Jobs]] = []
    for document in documents:
        if document.matrix is None:
            job = document.submission().model_dump(mode="json")
            if requests and requests[-1][0] is None:
                requests[-1][2].append(job)
            else:
                requests.append((None, 0, [job]))
            continue
        given = document.fields.get("name")
        group = given if isinstance(given, str) and "{" not in given else "sweep"
        fields = {"name": group, **document.fields}
        jobs = [
            JobDocument(job, document.source, document.lines).submission().model_dump(mode="json")
            for job in expand(fields, document.matrix, document.source)
        ]
        requests.append((group, document.parallel, jobs))
    return requests


def _with_common_apart(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all jobs share is sent once."""
    first = jobs[0]
    common = {
        name: value
        for name, value in first.items()
        if all(name in job and job[name] == value for job in jobs)
    }
    own = [{name: value for name, value in job.items() if name not in common} for job in jobs]
    return {"common": common, "jobs": own}
