"""From what a user submits to what the scheduler schedules and the executor runs."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from shockwave.executors.live import EXECUTORS
from shockwave.executors.local.accounts import Account
from shockwave.model.command import Command
from shockwave.model.errors import InputError, JournalError
from shockwave.model.job import JobSpec
from shockwave.server.gpu_wishes import check_room, counts_of, known_types, request_of
from shockwave.server.job_sections import check_for_executor
from shockwave.server.records import Submission

SECRET_FILE = "secret"
_ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # nothing that looks like something else
_RESERVED = "SHOCKWAVE_"


def new_job_id(number: int) -> str:
    """Short, unique by its number, and not to be guessed from its neighbours.

    >>> import re
    >>> bool(re.fullmatch("j-0042-[a-z2-9]{4}", new_job_id(42)))
    True
    """
    return f"j-{number:04d}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"


def checked(
    submission: Submission,
    *,
    gpus: Mapping[str, int],
    executor: str,
    account: Account | None = None,
) -> Submission:
    """The submission with its folder's full name and the cluster's names of GPU types.

    Raises :class:`InputError` if it could never run. ``gpus`` are those of the cluster, by their
    type, ``executor`` what runs its jobs, ``account`` the user that
    they run as, None for our own.
    """
    check_for_executor(submission.sections, EXECUTORS.load(executor))
    if submission.gpus == 0 and not EXECUTORS.load(executor).runs_without_gpus:
        raise InputError(
            f"the {executor} executor runs jobs that need GPUs only", place="gpus", value=0
        )
    names = known_types(submission.gpu_types, gpus, "gpu_types")
    preferred = submission.preferred_type
    if preferred is not None:
        (preferred,) = known_types([preferred], gpus, "preferred_type")
        if names and preferred not in names:
            raise InputError("is not one of gpu_types", place="preferred_type", value=preferred)
    check_room(request_of(submission.gpus), names, submission.gpu_memory, gpus)
    if not submission.command[0]:
        raise InputError("the program to run is empty", place="command")
    _check_environment(submission.env)
    _check_configurations(submission)
    workdir = _absolute(submission.workdir, account)
    # What another user has is not ours to look for, nor to tell others of.
    if account is None and not os.path.isdir(workdir):
        raise InputError(
            "is not a folder on the scheduler's machine", place="workdir", value=workdir
        )
    return submission.model_copy(
        update={"workdir": workdir, "gpu_types": names, "preferred_type": preferred}
    )


def stored(submission: Submission) -> Submission:
    """What the journal may keep of it: the names of its variables, and not their values."""
    return submission.model_copy(update={"env": dict.fromkeys(submission.env, "")})


def _absolute(workdir: str, account: Account | None) -> str:
    if account is not None and (workdir == "~" or workdir.startswith("~/")):
        workdir = account.home + workdir[1:]
    return os.path.abspath(os.path.expanduser(workdir) if account is None else workdir)


def _check_environment(environment: Mapping[str, str]) -> None:
    for name in environment:
        if not name or "=" in name:
            raise InputError("not the name of an environment variable", place="env", value=name)
        if name.startswith(_RESERVED):
            raise InputError(
                "names that start with SHOCKWAVE_ are set by the scheduler",
                place="env",
                value=name,
            )


def _check_configurations(submission: Submission) -> None:
    sizes = submission.batch_sizes
    if len(set(sizes)) != len(sizes):
        raise InputError("must not repeat a value", place="batch_sizes", value=sizes)
    for size in submission.epoch_seconds:
        if size not in sizes:
            raise InputError("is not one of batch_sizes", place="epoch_seconds", value=size)


def submission_of(job: str, text: str) -> Submission:
    """What was submitted. Raises :class:`JournalError` if the store is damaged."""
    try:
        return Submission.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise JournalError(f"the submission of job {job} cannot be read: {problem}") from error


def spec_of(job: str, arrival_seconds: float, submission: Submission, owner: str = "") -> JobSpec:
    """What the scheduler may know about the job."""
    profile = submission.epoch_seconds
    return JobSpec(
        id=job,
        arrival_seconds=arrival_seconds,
        gpus=request_of(submission.gpus),
        gpu_counts=counts_of(submission.gpus),
        gpu_types=tuple(submission.gpu_types),
        preferred_type=submission.preferred_type or "",
        gpu_memory_gb=submission.gpu_memory,
        epochs=submission.epochs,
        configurations=tuple(submission.batch_sizes),
        epoch_seconds=tuple(profile.get(size, math.nan) for size in submission.batch_sizes),
        adaptation=submission.adaptation,
        model=submission.model,
        tenant=submission.tenant or "default",
        weight=submission.weight,
        name=submission.name or "",
        owner=owner,
        preemptible=submission.preemptible,
        time_limit_seconds=submission.time_limit,
        on_hang=submission.on_hang,
        retries=submission.retries,
    )


class JobTokens:
    """A token for each job, which may speak for that job only.

    ``HMAC-SHA256(secret, job id)``: nothing is stored but the secret, and a restarted
    scheduler hands a job the token that it had before.
    """

    def __init__(self, state_dir: Path) -> None:
        self._secret = _secret(state_dir / SECRET_FILE)

    def token(self, job: str) -> str:
        return f"{job}.{hmac.digest(self._secret, job.encode(), hashlib.sha256).hex()}"

    def job_of(self, token: str) -> str | None:
        """The job that the token was made for; None if we never made it."""
        job = token.rpartition(".")[0]
        genuine = self.token(job).encode()
        return job if hmac.compare_digest(genuine, token.encode("utf-8", "replace")) else None


def _secret(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        secret = path.read_bytes()
        if len(secret) >= 32:
            return secret
    secret = secrets.token_bytes(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    return secret


def command_of(
    submission: Submission, *, environment: Mapping[str, str], workdir: str, token: str, user: str
) -> Command:
    """What the executor starts for the job."""
    return Command(
        argv=tuple(submission.command),
        workdir=workdir,
        env={**environment, "SHOCKWAVE_TOKEN": token},
        user=user,
        options={
            name: str(value)
            for section in submission.sections.values()  # one at most, the executor's
            for name, value in section.items()
        },
    )
