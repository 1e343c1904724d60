"""A file of tenants: TOML, a table ``[tenants.NAME]`` for each, as in the configuration."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

from shockwave.model.errors import InputError
from shockwave.model.tenants import Tenant, check_tenant

_FIELDS = {field.name: field for field in dataclasses.fields(Tenant) if field.name != "name"}
_OF_PEOPLE = {"users"}  # who they are is nothing to a simulation
_KINDS = {"weight": (int, float), "carry_over_hours": (int, float), "half_life_hours": (int, float),
          "guaranteed": (int,), "most": (int,), "by_person": (bool,)}  # fmt: skip


def read_tenants(path: Path) -> list[Tenant]:
    """The tenants of a file. Raises :class:`InputError` that names what is wrong."""
    source = str(path)
    try:
        tables = tomllib.loads(path.read_text()).get("tenants", {})
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", source=source) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not TOML: {error}", source=source) from error
    if not isinstance(tables, dict) or not tables:
        raise InputError("has no tables such as [tenants.vision]", source=source)
    return [_tenant(name, table, source) for name, table in tables.items()]


def _tenant(name: str, table: object, source: str) -> Tenant:
    if not isinstance(table, dict):
        raise InputError("should be a table", source=source, place=f"tenants.{name}", value=table)
    for field, value in table.items():
        place = f"tenants.{name}.{field}"
        if field not in _FIELDS and field not in _OF_PEOPLE:
            hint = f"The fields are {', '.join(_FIELDS)}"
            raise InputError("there is no such field", source=source, place=place, hint=hint)
        kinds = _KINDS.get(field)
        is_bool = isinstance(value, bool)
        if kinds is not None and (not isinstance(value, kinds) or is_bool != (kinds == (bool,))):
            raise InputError("has the wrong type", source=source, place=place, value=value)
    given = {field: value for field, value in table.items() if field in _FIELDS}
    return check_tenant(Tenant(name, **given), source)
