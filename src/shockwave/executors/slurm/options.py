"""What Slurm can be told about jobs: by the operator for all, by a user for one."""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from shockwave.executors import options

_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@:+-]*$"
_NAMES = r"^[A-Za-z0-9_][A-Za-z0-9_.@:+,-]*$"
_MEMORY = r"^[1-9][0-9]*[KMGT]?$"
_TIME = r"^[0-9]+(-[0-9]+)?(:[0-9]+){0,2}$"
_FEATURES = r"^[A-Za-z0-9_\[(][A-Za-z0-9_.@:+,&|*!()\[\]-]*$"
_NODES = r"^[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*$"
_EXTRA = r"^[a-z][a-z-]*(=[A-Za-z0-9_.@:+%/-]*)?(,[a-z][a-z-]*(=[A-Za-z0-9_.@:+%/-]*)?)*$"
_ONE_WORD = r"^[^-\s]\S*$"


def _only(pattern: str, expected: str) -> AfterValidator:
    """No blanks, and never an option: these become arguments of ``sbatch``."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"should be {expected}, without blanks or a dash at the start")
        return text

    return AfterValidator(check)


def _like(pattern: str) -> dict[str, str]:
    return {"pattern": pattern}


Name = Annotated[
    str, Field(max_length=128, json_schema_extra=_like(_NAME)), _only(_NAME, "one name")
]
Names = Annotated[
    str,
    Field(max_length=512, json_schema_extra=_like(_NAMES)),
    _only(_NAMES, "a name, or several with commas"),
]
Features = Annotated[
    str,
    Field(max_length=512, json_schema_extra=_like(_FEATURES)),
    _only(_FEATURES, "features such as v100 or v100|a100"),
]
Nodes = Annotated[
    str,
    Field(max_length=512, json_schema_extra=_like(_NODES)),
    _only(_NODES, "nodes such as n1,n[4-7]"),
]
Extra = Annotated[
    str,
    Field(max_length=512, json_schema_extra=_like(_EXTRA)),
    _only(_EXTRA, "options such as nice=5,signal=USR1"),
]
Count = Annotated[int, Field(ge=1, le=4096)]
Memory = Annotated[
    str,
    Field(max_length=16, json_schema_extra=_like(_MEMORY)),
    _only(_MEMORY, "an amount such as 16G"),
]
Time = Annotated[
    str,
    Field(max_length=32, json_schema_extra=_like(_TIME)),
    _only(_TIME, "minutes, hours:minutes:seconds or days-hours"),
]


_UNITS_MB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def megabytes(amount: str | None) -> int:
    """Memory as ``sbatch`` takes it, rounded up; 0 for none.

    >>> megabytes("16G"), megabytes("500"), megabytes(None)
    (16384, 500, 0)
    """
    if not amount:
        return 0
    number, unit = (amount[:-1], amount[-1]) if amount[-1] in _UNITS_MB else (amount, "M")
    return math.ceil(int(number) * _UNITS_MB[unit])


class SlurmSiteOptions(options.SiteOptions):
    """How jobs are submitted that do not say it themselves, and the Python of the nodes."""

    partition: Names | None = None
    """Partitions of jobs that name none. Without it, Slurm's default."""
    account: Name | None = None
    """Account of jobs that name none."""
    qos: Name | None = None
    """Quality of service of jobs that name none."""
    constraint: Features | None = None
    """Features that nodes must have, for jobs that name none."""
    cpus_per_gpu: Count | None = None
    """Processors with every GPU, for jobs that do not say."""
    mem_per_gpu: Memory | None = None
    """Memory with every GPU, such as 16G, for jobs that do not say."""
    python: str | None = Field(None, pattern=_ONE_WORD)
    """Python 3.11 or newer on the nodes. Without it, the path of this one."""
    mode: Literal["jobs", "allocation"] = "jobs"
    """A Slurm job for every start of a gang (``jobs``), or one long Slurm job a node that gangs run
    in (``allocation``)."""
    allow: Names | None = None
    """Further options of ``sbatch`` that jobs may use, such as ``nice,signal,mail-user``."""

    def node_source(self) -> str:
        return "Slurm"

    def job_defaults(self) -> dict[str, str]:
        """What holds for jobs that do not say."""
        own = ("python", "mode", "allow")
        return {name: value for name, value in self.given().items() if name not in own}


class SlurmJobOptions(options.JobOptions):
    """Where Slurm may run a job, and on whose behalf; as the options of ``sbatch``."""

    partition: Names | None = None
    """Partitions that it may run in."""
    account: Name | None = None
    """Account that it runs on behalf of."""
    qos: Name | None = None
    """Quality of service."""
    constraint: Features | None = None
    """Features that its nodes must have."""
    reservation: Name | None = None
    """Reservation that it may use."""
    cpus_per_gpu: Count | None = None
    """Processors with every GPU."""
    mem_per_gpu: Memory | None = None
    """Memory with every GPU, such as 16G."""
    time: Time | None = None
    """Limit of one launch; a job that reaches it goes on in the next."""
    exclude: Nodes | None = None
    """Nodes that it may not run on, such as ``n1,n[4-7]``."""
    exclusive: bool | None = None
    """Whether its nodes are for it alone."""
    gpu_type: Name | None = None
    """Kind of GPU, where nodes have several: ``a100``."""
    licenses: Names | None = None
    """Licences that it takes, such as ``matlab:2``."""
    extra: Extra | None = None
    """Further options of ``sbatch`` that the operator allows: ``nice=5,signal=USR1``."""
