"""The tables ``[tenants.NAME]`` of a configuration: who a tenant is, and what it was promised."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from shockwave.model.tenants import Tenant, TypePromise


def listed(value: object) -> object:
    """A list may be written as one text, with commas, where there are no lists."""
    if isinstance(value, str):
        return tuple(filter(None, (item.strip() for item in value.split(","))))
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
TenantName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]


class TypeSettings(BaseModel):
    """What a tenant was promised of one type of GPU."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    weight: float | None = Field(None, gt=0, le=1e6)
    guaranteed: int = Field(0, ge=0)
    most: int | None = Field(None, ge=0)


class TenantSettings(BaseModel):
    """Who a tenant is, and what its jobs may weigh."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    users: Names = ()
    weight: float = Field(1.0, gt=0, le=1e6)
    guaranteed: int = Field(0, ge=0)
    most: int | None = Field(None, ge=0)
    carry_over_hours: float = Field(24.0, ge=0)
    half_life_hours: float = Field(168.0, gt=0)
    by_person: bool = False
    types: dict[str, TypeSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        limits = [(promise.guaranteed, promise.most) for promise in self.types.values()]
        for guaranteed, most in ((self.guaranteed, self.most), *limits):
            if most is not None and most < guaranteed:
                raise ValueError("most must not be below guaranteed")
        return self

    def promised_to(self, name: str) -> Tenant:
        """What the scheduler must keep."""
        said = self.model_dump(exclude={"users", "types"})
        types = sorted(self.types.items())
        promises = (TypePromise(kind, **dict(promise)) for kind, promise in types)
        return Tenant(name, **said, types=tuple(promises))
