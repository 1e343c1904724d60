"""Slurm's own programs, each with a time limit, and what their answers mean.

Text and not JSON is read: the formats are asked for field by field and have been the same for
ten years, where JSON changed with almost every release; it is also ten times as fast.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.slurm.jobs import JOB_FORMAT, SlurmJob, read_jobs
from shockwave.executors.slurm.nodes import SlurmNode, read_nodes
from shockwave.executors.slurm.partitions import SlurmPartition, read_partitions
from shockwave.executors.slurm.rivals import RIVAL_FORMAT, Rival, read_rivals

logger = logging.getLogger(__name__)
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

    def submit(self, arguments: Sequence[str]) -> int:
        """The number of the new job, or of the first of a heterogeneous one."""
        said = self._run("sbatch", "--parsable", *arguments).split()
        number = said[-1].partition(";")[0] if said else ""
        if not number.isdigit():
            raise SlurmRefused(f"sbatch told no number, but {' '.join(said)!r}")
        return int(number)

    def jobs(self) -> list[SlurmJob]:
        """All jobs of this user that Slurm remembers, also those that have ended lately."""
        text = self._run(
            "squeue",
            "--noheader",
            "--states=all",
            f"--user={os.getuid()}",
            f"--format={JOB_FORMAT}",
        )
        return read_jobs(text)

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

    def try_out(self, arguments: Sequence[str]) -> str | None:
        """Why Slurm would not take such a job; None if it would."""
        try:
            self._run("sbatch", "--test-only", *arguments)
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

    def _run(self, *argv: str) -> str:
        try:
            done = subprocess.run(
                argv,
                env=self._environment,
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
