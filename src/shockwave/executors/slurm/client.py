"""Slurm's own programs, each with a time limit, and what their answers mean.

Text and not JSON is read: the formats are asked for field by field and have been the same for
ten years, where JSON changed with almost every release; it is also ten times as fast.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.local.accounts import Account
from shockwave.executors.slurm.associations import Association, read_associations
from shockwave.executors.slurm.jobs import JOB_FORMAT, SlurmJob, canceller_in, read_jobs
from shockwave.executors.slurm.nodes import SlurmNode, read_nodes
from shockwave.executors.slurm.partitions import SlurmPartition, read_partitions
from shockwave.executors.slurm.rivals import RIVAL_FORMAT, Rival, read_rivals
from shockwave.model.errors import ExecutorError
from shockwave.protocol.environment import base_environment

logger = logging.getLogger(__name__)
_PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
_MOST_IDS = 1000  # in one command
_NO_ANSWER = (
    "unable to contact",
    "connect failure",
    "connection refused",
    "timed out",
    "authentication error",
    "standby mode",
    "temporarily un",  # able to accept job, available
    "zero bytes were transmitted",
    "communication",
)
_PREFIX = re.compile(
    r"^(?:\w+: )?(?:error: )?(?:Batch job submission failed: |slurm_load_\w+ error: )?"
)
# Whose scheduler runs inside a job of Slurm's must not pass that job's variables on.
_CONNECTION = (
    "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS", "SLURM_SACK_SOCKET",
)  # fmt: skip
_SECRET = ("SLURM_JWT",)
_NOT_FOR_JOBS = ("SHOCKWAVE_", "SLURM", "SBATCH_", "SRUN_", "CUDA_VISIBLE_DEVICES")


class SlurmRefused(Exception):  # noqa: N818  (an answer)
    """Slurm answered, and said no; in its own words."""


class SlurmClient:
    """``environment`` is that of the programs, and so that of the jobs that they submit.

    Every method raises :class:`BackendAway` if Slurm does not answer within ``limit_seconds``,
    and :class:`SlurmRefused` if it does not want to.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, limit_seconds: float = 30.0
    ) -> None:
        self._environment = for_jobs(os.environ if environment is None else environment)
        self._limit = limit_seconds

    def submit(self, arguments: Sequence[str], account: Account | None = None) -> int:
        """The number of the new job, or of the first of a heterogeneous one.

        It is submitted by the user of ``account``, with what that user may do; None means ours.
        """
        said = self._run("sbatch", "--parsable", *arguments, account=account).split()
        number = said[-1].partition(";")[0] if said else ""
        if not number.isdigit():
            raise SlurmRefused(f"sbatch told no number, but {' '.join(said)!r}")
        return int(number)

    def jobs(self) -> list[SlurmJob]:
        """All jobs that may be ours and that Slurm remembers, also those that have ended lately.

        These are the jobs of this user; of everybody where we may submit for others.
        """
        whose = [] if os.geteuid() == 0 else [f"--user={os.getuid()}"]
        states = ("--noheader", "--states=all")
        return read_jobs(self._run("squeue", *states, *whose, f"--format={JOB_FORMAT}"))

    def associations(self, user: str) -> list[Association] | None:
        """What a user may submit on behalf of; None where Slurm keeps no accounts."""
        fields = "format=Account,Partition,QOS"
        show = ("show", "associations", f"user={user}", fields)
        try:
            return read_associations(self._run("sacctmgr", "--noheader", "--parsable2", *show))
        except (BackendAway, SlurmRefused) as error:
            logger.debug("sacctmgr: %s", error)
            return None

    def nodes(self) -> list[SlurmNode]:
        return read_nodes(self._run("scontrol", "--oneliner", "--details", "show", "nodes"))

    def answers(self) -> bool:
        """Whether a controller is there. Says no at once, where other programs keep trying."""
        try:
            return " is UP" in self._run("scontrol", "ping")
        except (BackendAway, SlurmRefused) as answer:
            return " is UP" in str(answer)

    def partitions(self) -> dict[str, SlurmPartition]:
        return read_partitions(self._run("scontrol", "--oneliner", "show", "partitions"))

    def rivals(self, site: str) -> tuple[Rival, ...]:
        """The jobs of others that wait for nodes."""
        states = ("squeue", "--noheader", "--states=PENDING")
        return read_rivals(self._run(*states, f"--format={RIVAL_FORMAT}"), site)

    def first_come_first_served(self) -> bool:
        """Whether priorities follow the order of submission and nothing else."""
        return bool(
            re.search(r"PriorityType\s*=\s*priority/basic", self._run("scontrol", "show", "config"))
        )

    def cancelled_by(self, number: int) -> str | None:
        """The user who cancelled a job; empty if the accounts do not say, None without any."""
        about = (f"--jobs={number}", "--format=State%40")
        try:
            said = self._run("sacct", "--noheader", "--allocations", "--parsable2", *about)
        except (BackendAway, SlurmRefused) as error:
            logger.debug("sacct: %s", error)
            return None
        return canceller_in(said) or ""

    def try_out(self, arguments: Sequence[str], account: Account | None = None) -> str | None:
        """Why Slurm would not take such a job from that user; None if it would."""
        try:
            self._run("sbatch", "--test-only", *arguments, account=account)
        except SlurmRefused as answer:
            return str(answer)
        return None

    def cancel(self, jobs: Iterable[int]) -> None:
        """Ends them for good."""
        self._scancel(jobs)

    def cancel_pending(self, jobs: Iterable[int]) -> None:
        """Takes those back that were not started."""
        self._scancel(jobs, "--state=PENDING")

    def terminate_scripts(self, jobs: Iterable[int]) -> None:
        """SIGTERM to the script of each, and to nothing that it started."""
        self._scancel(jobs, "--batch", "--signal=TERM")

    def terminate_steps(self, jobs: Iterable[int]) -> None:
        """SIGTERM to what ``srun`` started, on all nodes."""
        self._scancel(jobs, "--signal=TERM")

    def _scancel(self, jobs: Iterable[int], *options: str) -> None:
        numbers = [str(job) for job in jobs]
        for first in range(0, len(numbers), _MOST_IDS):
            try:
                self._run("scancel", *options, *numbers[first : first + _MOST_IDS])
            except SlurmRefused as answer:  # one of them ended in the meantime
                logger.debug("scancel: %s", answer)

    def _run(self, *argv: str, account: Account | None = None) -> str:
        environment = self._environment
        identity: dict[str, Any] = {}
        if account is not None:
            environment = {**for_others(environment), **account.variables}
            identity = {**account.identity, "cwd": "/"}
        try:
            done: subprocess.CompletedProcess[str] = subprocess.run(
                argv,
                env=environment,
                **identity,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._limit,
            )
        except subprocess.TimeoutExpired as error:
            raise BackendAway(f"Slurm did not answer {argv[0]} in {self._limit:g} s") from error
        except OSError as error:
            raise BackendAway(f"{argv[0]} cannot be run: {error}") from error
        if done.returncode == 0:
            return done.stdout
        words = in_short(done.stderr or done.stdout)
        if any(sign in words.lower() for sign in _NO_ANSWER):
            raise BackendAway(f"Slurm does not answer: {words}")
        raise SlurmRefused(words or f"{argv[0]} failed with code {done.returncode}")


def in_short(said: str) -> str:
    """What a program of Slurm complained about, without who says so.

    >>> in_short("sbatch: error: Batch job submission failed: Invalid feature specification")
    'Invalid feature specification'
    """
    lines = [_PREFIX.sub("", line.strip(), count=1) for line in said.splitlines()]
    return "; ".join(line for line in lines if line)


def for_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job gets of the scheduler's environment."""
    return {
        name: value
        for name, value in environment.items()
        if name in _CONNECTION or not name.startswith(_NOT_FOR_JOBS)
    }


def for_others(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the scheduler's environment a program of another user may see.

    >>> for_others({"SLURM_CONF": "/etc/slurm.conf", "SLURM_JWT": "...", "DATABASE": "..."})
    {'SLURM_CONF': '/etc/slurm.conf', 'PATH': '/bin:/usr/bin'}
    """
    base = base_environment(environment)
    return {name: value for name, value in base.items() if name not in _SECRET}


def client_here() -> SlurmClient:
    """Raises :class:`ExecutorError` if Slurm is not installed."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise ExecutorError(f"Slurm is not installed here: no {', '.join(missing)}")
    return SlurmClient()
