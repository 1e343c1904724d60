"""What Slurm can be told about jobs: by the operator for all, by a user for one."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@:+-]*$"
_NAMES = r"^[A-Za-z0-9_][A-Za-z0-9_.@:+,-]*$"
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


class SlurmOptions(BaseModel):
    """Where Slurm may run a job, and on whose behalf; as the options of ``sbatch``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: SlurmNames | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    constraint: SlurmFeatures | None = None

    def given(self) -> dict[str, str]:
        """Those that are set."""
        return self.model_dump(exclude_none=True)
