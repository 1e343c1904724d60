"""The weekly report: use, waiting and who got what, of the last seven days only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.receivers import mailbox
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.engine.journal import FileJournal
from shockwave.executors.simulation import simulate
from shockwave.measure.weekly import DAY_SECONDS, week_of
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors


def job(name: str, day: float, hours: int, owner: str, tenant: str) -> TraceJob:
    spec = JobSpec(name, day * DAY_SECONDS, 2, hours, (1,), (3600.0,), tenant=tenant, owner=owner)
    return TraceJob(spec, (Regime(1, hours, 3600.0),))


def events(journal: FileJournal | None = None) -> list[Event]:
    jobs = [
        job("old", 0, 5, "eve", "past"),
        job("a", 9, 10, "ann", "vision"),
        job("b", 9, 4, "bob", "speech"),
        job("c", 10, 2, "ann", "<b>vision</b>"),
    ]
    return simulate(
        jobs, Cluster.uniform(2), policies.create("fifo"), predictors.create("reactive"),
        journal=journal,
    )  # fmt: skip


def test_who_got_what_in_the_last_seven_days() -> None:
    week = week_of(events())
    assert [share.name for share in week.people] == ["ann", "bob"]  # eve was before
    ann, bob = week.people
    assert ann.gpu_hours == pytest.approx(24.0, rel=0.02)
    assert bob.gpu_hours == pytest.approx(8.0, rel=0.02)
    assert (ann.finished, bob.finished, week.total.finished) == (2, 1, 3)
    assert bob.mean_wait_seconds == pytest.approx(10 * 3600, rel=0.02)
    assert week.use == pytest.approx(32.0 / (2 * 7 * 24), rel=0.02)
    assert len(week.days) == 7


def test_a_journal_becomes_a_page_and_a_mail(tmp_path: Path) -> None:
    run, page = tmp_path / "run.jsonl", tmp_path / "week.html"
    with FileJournal(run) as journal:
        events(journal)
    with mailbox() as received:
        arguments = ["report", "--weekly", str(run), "-o", str(page), "--against", "srtf"]
        done = CliRunner().invoke(
            app,
            [*arguments, "--mail-to", "boss@example.org"],
            env={"SHOCKWAVE_SMTP": received.url, "SHOCKWAVE_STATE_DIR": str(tmp_path)},
        )
        assert done.exit_code == 0, done.output
    (mail,) = received.mails
    plain = mail.get_body(("plain",))
    assert plain is not None
    assert "ann: 24" in plain.get_content()
    assert mail["To"] == "boss@example.org"
    text = page.read_text("utf-8")
    assert "Who got what" in text
    assert "srtf" in text
    assert "<b>vision" not in text  # what people wrote is not markup
