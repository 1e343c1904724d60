"""A Slurm cluster looked at and never touched: ``squeue`` and ``sacct``, nothing else.

Nothing here can submit, change or end a job. Whatever else a caller may want is refused before a
program is started.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from shockwave.model.errors import ExecutorError

_MAY_RUN = ("squeue", "sacct")
_FORMAT = "%A|%u|%a|%P|%T|%D|%b|%l|%V|%S|%e|%j"
_HISTORY = (
    "JobIDRaw,User,Account,Partition,State,AllocNodes,AllocTRES,Timelimit,Submit,Start,End,JobName"
)
_GPUS_PER_NODE = re.compile(r"gpu(?::[^:,=()]+)?[:=](\d+)")
_GPUS_IN_ALL = re.compile(r"gres/gpu=(\d+)")
_SPAN = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING")


@dataclass(frozen=True, slots=True)
class SeenJob:
    """What Slurm says of a job. Times are unix seconds, None where they have not come."""

    number: str
    user: str
    account: str
    partition: str
    state: str
    gpus: int
    limit_seconds: float | None
    submitted: float
    started: float | None
    ended: float | None
    name: str = ""


class SlurmWatch:
    """``environment`` is that of the programs; each has ``limit_seconds`` to answer."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, limit_seconds: float = 60.0
    ) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._limit = limit_seconds

    def jobs(self) -> list[SeenJob]:
        """All jobs that Slurm remembers, those that ended in the last minutes included.

        Raises :class:`ExecutorError` if Slurm does not answer.
        """
        rows = self._run("squeue", "--noheader", "--states=all", f"--format={_FORMAT}")
        return list(_read(rows))

    def history(self, days: float) -> list[SeenJob]:
        """Jobs of the last days that have ended; none where Slurm keeps no accounts."""
        try:
            rows = self._run(
                "sacct", "--allusers", "--allocations", "--noheader", "--parsable2",
                f"--starttime=now-{max(round(days * 24), 1)}hours", f"--format={_HISTORY}",
            )  # fmt: skip
        except ExecutorError:
            return []
        return [job for job in _read(rows) if job.ended is not None]

    def _run(self, program: str, *arguments: str) -> str:
        if program not in _MAY_RUN:
            raise ExecutorError(f"a shadow does not run {program}")
        try:
            done = subprocess.run(
                [program, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._limit,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ExecutorError(f"{program} does not answer: {error}") from error
        if done.returncode != 0:
            raise ExecutorError(f"{program}: {done.stderr.strip() or done.returncode}")
        return done.stdout


def _read(text: str) -> Iterator[SeenJob]:
    for line in text.splitlines():
        cells = line.split("|", 11)
        if len(cells) == 12 and cells[0].strip():
            yield _job([cell.strip() for cell in cells])


def _job(cells: list[str]) -> SeenJob:
    number, user, account, partition, state, nodes, gpus, limit, submit, start, end, name = cells
    word = state.partition(" ")[0]  # "CANCELLED by 1000"
    started = None if word in _WAITING else _moment(start)
    is_over = word not in (*_WAITING, *_RUNNING)
    return SeenJob(
        number=number,
        user=user,
        account=account,
        partition=partition,
        state=word,
        gpus=_gpus(gpus, int(nodes) if nodes.isdigit() else 1),
        limit_seconds=_span(limit),
        submitted=_moment(submit) or 0.0,
        started=started,
        ended=_moment(end) if is_over else None,
        name=name,
    )


def _gpus(text: str, nodes: int) -> int:
    """
    >>> _gpus("gres/gpu:2", 3), _gpus("billing=8,gres/gpu=4,node=2", 2), _gpus("N/A", 1)
    (6, 4, 0)
    """
    whole = _GPUS_IN_ALL.search(text)
    if whole is not None and "," in text:
        return int(whole[1])
    each = _GPUS_PER_NODE.search(text)
    return nodes * int(each[1]) if each is not None else 0


def _span(text: str) -> float | None:
    """
    >>> _span("1-02:00:00"), _span("30:00"), _span("UNLIMITED")
    (93600.0, 1800.0, None)
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _moment(text: str) -> float | None:
    """A time as Slurm's programs write it, in the zone of this machine."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
