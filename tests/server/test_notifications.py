"""People are told: what, when, whom, and again until it arrives."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.server import services
from tests.server.receivers import hook, mailbox

from shockwave.model.errors import InputError
from shockwave.server.addresses import Occasion
from shockwave.server.couriers import DELIVERY, SIGNATURE, Couriers, DeliveryError, signature
from shockwave.server.notices import notice_of
from shockwave.server.notifications import KEY_FILE, Recipients, is_late
from shockwave.server.outbox import GIVEN_UP_AFTER_SECONDS, Addressed, Delivery, Outbox
from shockwave.server.records import JobRecord, WhyRecord

ALL = ["started", "finished", "failed", "cancelled", "preempted", "late"]


def wait_for(happened: Callable[[], bool]) -> None:
    services.wait_for(happened, "somebody to be told")


def told(requests: list[tuple[dict[str, str], bytes]]) -> list[tuple[str, str]]:
    return [(body["job"], body["event"]) for body in (json.loads(raw) for _, raw in requests)]


def test_a_job_tells_its_owner_what_became_of_it(tmp_path: Path) -> None:
    with hook() as received, services.running(services.config(tmp_path)) as service:
        good = services.submit(
            service, services.tiny(name="good", notify=[received.url], notify_on=ALL)
        )
        bad = services.submit(service, services.tiny(crash_at=0, notify=[received.url]))
        services.submit(service, services.tiny())  # nobody wants to know
        wanted = {(good, "started"), (good, "finished"), (bad, "failed")}
        wait_for(lambda: set(told(received.requests)) >= wanted)
        headers, body = received.requests[0]
        key = (tmp_path / KEY_FILE).read_text().strip().encode()
        at = re.match(r"t=(\d+),", headers[SIGNATURE])
        assert at is not None
        assert headers[SIGNATURE] == signature(key, int(at[1]), body)
        assert json.loads(body)["name"] == "good"


def failures(state_dir: Path) -> int:
    """Of tries to tell somebody, as another process sees them in the outbox."""
    with closing(sqlite3.connect(state_dir / "notifications.db")) as database:
        (found,) = database.execute("SELECT COALESCE(MAX(failures), 0) FROM targets").fetchone()
    return int(found)


def test_what_did_not_arrive_is_tried_again_after_a_restart(tmp_path: Path) -> None:
    with hook() as gone:
        pass
    settings = services.config(tmp_path)
    with services.running(settings) as service:
        job = services.submit(service, services.tiny(notify=[gone.url]))
        wait_for(lambda: services.known(service, job).state == "finished")
        wait_for(lambda: failures(tmp_path) > 0)
    port = int(gone.url.split(":")[2].partition("/")[0])
    outbox = Outbox(tmp_path / "notifications.db")
    with outbox._change() as database:  # as if the time until the next try were over
        database.execute("UPDATE targets SET due = 0")
    outbox.close()
    with hook(port) as back, services.running(settings):
        wait_for(lambda: told(back.requests) == [(job, "finished")])


def test_a_scheduler_without_mail_refuses_addresses_when_a_job_is_submitted(
    tmp_path: Path,
) -> None:
    with (
        services.running(services.config(tmp_path)) as service,
        pytest.raises(InputError, match="sends no mail"),
    ):
        services.submit(service, services.tiny(notify=["mailto:ann@example.org"]))


def test_mail_is_sent(tmp_path: Path) -> None:
    with mailbox() as received:
        settings = services.config(tmp_path, smtp=received.url, mail_from="gpu@example.org")
        with services.running(settings) as service:
            services.submit(service, services.tiny(name="mine", notify=["mailto:ann@example.org"]))
            wait_for(lambda: bool(received.mails))
    (mail,) = received.mails
    assert (mail["To"], mail["From"]) == ("ann@example.org", "gpu@example.org")
    assert mail["Subject"] == "mine: finished"
    assert "shockwave why" in mail.get_content()


def delivery(target: str, since: float = 0.0) -> Delivery:
    return Delivery(7, 1, "finished", "j", target, '{"event": "finished"}', since)


def test_an_answer_that_is_no_success_is_a_failure_and_redirects_are_not_followed(
    tmp_path: Path,
) -> None:
    couriers = Couriers(services.config(tmp_path), b"key", lambda: 5.0)
    with hook() as received:
        for status in (500, 404, 302):
            received.answers = [status]
            with pytest.raises(DeliveryError, match=str(status)):
                couriers.deliver(delivery(received.url))
        assert received.tried == 3
        couriers.deliver(delivery(received.url))
        assert received.requests[0][0][DELIVERY] == "7"
    with pytest.raises(DeliveryError):
        couriers.deliver(delivery(received.url))  # nobody listens any more
    with pytest.raises(DeliveryError, match="smtp is not set"):
        couriers.deliver(delivery("mailto:ann@example.org"))


def added(outbox: Outbox, *targets: str, sequence: int = 1) -> None:
    outbox.add(sequence, [Addressed(sequence, "finished", "j", "{}", targets)], now=0.0)


def test_waits_grow_for_a_target_that_fails_and_others_do_not_wait(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.position(0)
    added(outbox, "https://down", "https://up")
    added(outbox, "https://down", sequence=2)
    first, second = outbox.due(0.0)
    outbox.arrived(second)
    waits, now = [], 0.0
    for _ in range(12):
        wait = outbox.failed(first, now)
        assert wait is not None
        waits.append(wait)
        assert outbox.due(now) == []
        now += wait
        assert [item.id for item in outbox.due(now)] == [first.id]  # the later one stays behind it
    assert waits == sorted(waits)
    assert waits[1] == 2 * waits[0]
    assert outbox.failed(first, GIVEN_UP_AFTER_SECONDS + 1.0) is None
    outbox.close()


def test_reading_the_journal_again_adds_nothing_twice(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    assert outbox.position(41) == 41
    added(outbox, "https://one", sequence=42)
    added(outbox, "https://one", sequence=42)
    assert len(outbox.due(0.0)) == 1
    outbox.close()
    again = Outbox(tmp_path / "outbox")
    assert again.position(99) == 42
    assert len(again.due(0.0)) == 1
    again.close()


@pytest.mark.parametrize(
    ("record", "occasion"),
    [
        ({"kind": "job-stopped", "reason": "preempted", "epochs_done": 1.0}, Occasion.PREEMPTED),
        ({"kind": "job-stopped", "reason": "crashed", "epochs_done": 1.0}, None),
        ({"kind": "job-cancelled"}, Occasion.CANCELLED),
        ({"kind": "job-failed", "reason": "kept crashing"}, Occasion.FAILED),
        ({"kind": "job-held"}, None),
    ],
)
def test_what_an_event_means_to_people(record: dict[str, Any], occasion: Occasion | None) -> None:
    notice = notice_of(3, {"time": 2.0, "job": "j", **record}, 1000.0)
    assert (None if notice is None else notice.occasion) == occasion
    assert notice is None or (notice.job, notice.time) == ("j", 1002.0)


def test_a_job_goes_before_its_owner_and_the_operator_hears_of_all() -> None:
    recipients = Recipients({"ann": ["mailto:ann@example.org"]}, ["https://all"])
    of_job = services.tiny(notify=["https://job"])
    assert recipients.of(of_job, "ann", Occasion.FINISHED) == ("https://job", "https://all")
    assert recipients.of(services.tiny(), "ann", Occasion.LATE)[0] == "mailto:ann@example.org"
    assert recipients.of(services.tiny(), "bob", Occasion.FAILED) == ("https://all",)
    assert recipients.of(of_job, "ann", Occasion.STARTED) == ()


def running_job(finish_low: float | None) -> JobRecord:
    why = WhyRecord(reason="", finish_low=finish_low, finish=finish_low)
    return JobRecord.model_validate(
        {
            "id": "j", "name": "j", "state": "running", "tenant": "t", "model": "", "gpus": 1,
            "epochs": 1, "epochs_done": 0, "configuration": None, "adaptation": "static",
            "submitted": 0, "started": 100.0, "finished": None, "starts": 1, "crashes": 0,
            "preemptions": 0, "nodes": [], "why": why,
        }
    )  # fmt: skip


def test_late_is_well_beyond_what_was_expected_at_the_start() -> None:
    assert not is_late(running_job(1050.0), expected_unix=1000.0, now_unix=500.0)
    assert is_late(running_job(1200.0), expected_unix=1000.0, now_unix=500.0)
    assert is_late(running_job(None), expected_unix=1000.0, now_unix=1200.0)


def test_who_will_be_late_is_told_once(tmp_path: Path) -> None:
    with hook() as received, services.running(services.config(tmp_path)) as service:
        job = services.submit(service, services.tiny(epochs=1000, notify=[received.url]))
        wait_for(lambda: services.known(service, job).state == "running")
        notifications = service._notifications
        notifications._outbox.expect(job, services.known(service, job).started or 0.0)
        for _ in range(2):
            notifications._late_at = 0.0
            wait_for(lambda: notifications._late_at > 0.0)
        wait_for(lambda: told(received.requests) == [(job, "late")])
        assert json.loads(received.requests[0][1])["finish"] > 0
        service.desk.cancel(job)


@pytest.mark.parametrize("wrong", ["ftp://x", "mailto:nobody", "mailto:a@b,c@d", "https://", "x"])
def test_targets_that_make_no_sense_are_refused(wrong: str) -> None:
    with pytest.raises(ValidationError):
        services.tiny(notify=[wrong])
