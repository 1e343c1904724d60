"""What Slurm can be told about jobs: by the operator for all, by a user for one."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@:+-]*$"
_NAMES = r"^[A-Za-z0-9_][A-Za-z0-9_.@:+,-]*$"
_MEMORY = r"^[1-9][0-9]*[KMGT]?$"
_TIME = r"^[0-9]+(-[0-9]+)?(:[0-9]+){0,2}$"
_FEATURES = r"^[A-Za-z0-9_\[(][A-Za-z0-9_.@:+,&|*!()\[\]-]*$"


def _only(pattern: str, expected: str) -> AfterValidator:
    """No blanks, and never an option: these become arguments of ``sbatch``."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"should be {expected}, without blanks or a dash at the start")
        return text

    return AfterValidator(check)


def _like(pattern: str) -> dict[str, str]:
    return {"pattern": pattern}


SlurmName = Annotated[
    str, Field(max_length=128, json_schema_extra=_like(_NAME)), _only(_NAME, "one name")
]
SlurmNames = Annotated[
    str,
    Field(max_length=512, json_schema_extra=_like(_NAMES)),
    _only(_NAMES, "a name, or several with commas"),
]
SlurmFeatures = Annotated[
    str,
    Field(max_length=512, json_schema_extra=_like(_FEATURES)),
    _only(_FEATURES, "features such as v100 or v100|a100"),
]
SlurmCount = Annotated[int, Field(ge=1, le=4096)]
SlurmMemory = Annotated[
    str,
    Field(max_length=16, json_schema_extra=_like(_MEMORY)),
    _only(_MEMORY, "an amount such as 16G"),
]
SlurmTime = Annotated[
    str,
    Field(max_length=32, json_schema_extra=_like(_TIME)),
    _only(_TIME, "minutes, hours:minutes:seconds or days-hours"),
]


class SlurmOptions(BaseModel):
    """Where Slurm may run a job, and on whose behalf; as the options of ``sbatch``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: SlurmNames | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    constraint: SlurmFeatures | None = None
    reservation: SlurmName | None = None
    cpus_per_gpu: SlurmCount | None = None
    mem_per_gpu: SlurmMemory | None = None
    time: SlurmTime | None = None  # of one launch; a job that reaches it goes on in the next

    def given(self) -> dict[str, str]:
        """Those that are set."""
        return {name: str(value) for name, value in self.model_dump(exclude_none=True).items()}
