"""Tenants of a running scheduler: from its configuration to what people are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server import services

from shockwave.model.errors import InputError
from shockwave.model.tenants import Tenant
from shockwave.server.records import TenantChanges
from shockwave.server.settings import TenantSettings


def test_the_table_of_the_configuration_holds_and_is_told_once(tmp_path: Path) -> None:
    def told() -> list[dict[str, object]]:
        with services.running(services.config(tmp_path, tenants=tables)) as service:
            events = [record for _, record in service.desk.events(0, 1000)]
            held.append(dict(service._now.log.state.accounts.tenants))
        return [event for event in events if event["kind"] == "tenant-changed"]

    held: list[dict[str, Tenant]] = []
    tables = {"vision": TenantSettings(users=("ann",), weight=2.0, most=3)}
    assert len(told()) == 1
    assert len(told()) == 1, "nothing has changed at the second start"
    tables = {"vision": TenantSettings(users=("ann",), weight=4.0)}
    assert len(told()) == 2
    assert held[0] == {"vision": Tenant("vision", 2.0, most=3)}
    assert held[-1] == {"vision": Tenant("vision", 4.0)}


def test_what_an_operator_changes_holds_whatever_the_configuration_says(tmp_path: Path) -> None:
    settings = services.config(tmp_path, tenants={"vision": TenantSettings(weight=2.0)})
    with services.running(settings) as service:
        service.desk.change_tenant("vision", TenantChanges(most=3), by="dana")
        with pytest.raises(InputError, match="guaranteed"):
            service.desk.change_tenant("vision", TenantChanges(guaranteed=4), by="dana")
        records = {record.tenant: record for record in service.desk.tenants()}
        events = [record for _, record in service.desk.events(0, 1000)]
    assert (records["vision"].weight, records["vision"].most) == (2.0, 3)
    assert [e["by"] for e in events if e["kind"] == "tenant-changed"] == ["", "dana"]
    with services.running(settings) as service:
        assert service._now.log.state.accounts.tenants == {"vision": Tenant("vision", 2.0, most=3)}
