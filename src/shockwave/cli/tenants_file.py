"""A file of tenants: TOML, a table ``[tenants.NAME]`` for each, as in the configuration."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from shockwave.model.errors import InputError
from shockwave.model.tenants import Tenant
from shockwave.server.tenant_settings import TenantSettings


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
    try:
        return TenantSettings.model_validate(table).promised_to(name)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(("tenants", name, *map(str, wrong["loc"])))
        if wrong["type"] == "extra_forbidden":
            hint = f"The fields are {', '.join(TenantSettings.model_fields)}"
            raise InputError(
                "there is no such field", source=source, place=place, hint=hint
            ) from None
        problem = wrong["msg"].removeprefix("Value error, ")
        raise InputError(problem, source=source, place=place, value=wrong["input"]) from None
