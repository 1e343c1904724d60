"""Tenants of a running scheduler: from its configuration to what people are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server import services

from shockwave.model.errors import InputError
from shockwave.model.tenants import Tenant
from shockwave.server.records import TenantChanges
from shockwave.server.tenant_settings import TenantSettings


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


def test_promises_of_a_type_are_changed_told_and_kept_at_submission(tmp_path: Path) -> None:
    of_a100 = {"A100": {"guaranteed": 1, "most": 2}}
    tables = {"vision": TenantSettings.model_validate({"users": ("ann",), "types": of_a100})}
    settings = services.slow(tmp_path, slots="A100:4,T4:2", tenants=tables)
    job = services.tiny(gpus=3, tenant="vision")

    def change(**types: dict[str, object] | None) -> None:
        changes = TenantChanges.model_validate({"types": types})
        service.desk.change_tenant("vision", changes, by="dana")

    def told() -> list[tuple[str, int, int | None]]:
        (record,) = service.desk.tenants()
        return [(one.gpu_type, one.guaranteed, one.most) for one in record.types]

    with services.running(settings) as service:
        assert told() == [("A100", 1, 2), ("T4", 0, None)]
        change(t4={"most": 1})
        with pytest.raises(
            InputError, match=r"may hold 2 A100 at most.*tenants vision A100.most=3"
        ):
            services.submit(service, job)
        with pytest.raises(InputError, match="the cluster has no GPUs of this type"):
            change(H100={"most": 1})
        change(A100={"most": 3})
        assert told() == [("A100", 1, 3), ("T4", 0, 1)]
        services.submit(service, job)
        change(A100=None)
        assert told() == [("A100", 0, None), ("T4", 0, 1)]
