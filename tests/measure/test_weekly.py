"""The weekly report: use, waiting and who got what, of the last seven days only."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.server.receivers import mailbox
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.engine.journal import FileJournal
from shockwave.executors.simulation import simulate
from shockwave.executors.slurm.watch import SeenJob
from shockwave.measure.week_replay import replay_week
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
    waits = [day.mean_wait_seconds for day in week.days if day.mean_wait_seconds is not None]
    assert max(waits) == pytest.approx(5 * 3600, rel=0.02), "a and b began on the same day"


def test_another_policy_is_given_the_jobs_of_the_week_from_where_they_were() -> None:
    """A long job of before, half of it done; a short one that came in the week and waited."""
    jobs = [
        job("old", 0, 5, "eve", "past"),
        job("long", 1, 100, "ann", "vision"),
        job("short", 4, 2, "bob", "speech"),
        job("last", 9, 1, "bob", "speech"),
    ]
    policy = policies.create("fifo")
    recorded = simulate(jobs, Cluster.uniform(2), policy, predictors.create("reactive"))
    week = week_of(recorded)
    assert week.begin == pytest.approx(2.04 * DAY_SECONDS, rel=0.01)
    (one,) = replay_week(recorded, week.history, week.begin, week.end, ["srtf"])
    assert one.jobs == 3
    hours = 3600.0
    left_of_long = 100 * hours - (week.begin - DAY_SECONDS)
    until_long_ends = week.begin + left_of_long - 4 * DAY_SECONDS
    as_it_was = (left_of_long + until_long_ends + 2 * hours + 1 * hours) / 3
    assert one.was.mean_jct_seconds == pytest.approx(as_it_was, rel=0.01)
    short_first = (left_of_long + 2 * hours + 2 * hours + 1 * hours) / 3
    assert one.would_be.mean_jct_seconds == pytest.approx(short_first, rel=0.03)
    assert one.would_be.finished == one.was.finished == 3


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
    assert "srtf: mean JCT" in plain.get_content()
    table, (attached,) = mail.get_body(("html",)), mail.iter_attachments()
    assert table is not None
    assert "ann" in table.get_content()
    assert not {"<svg", "<script", "<style"} & set(re.findall(r"<\w+", table.get_content()))
    assert attached.get_payload(decode=True) == page.read_bytes()
    assert mail["To"] == "boss@example.org"
    text = page.read_text("utf-8")
    charts = set(re.findall(r'aria-label="([^"]+)"', text))
    assert {"GPUs in use", "Mean wait by day", "GPU hours, by person"} <= charts
    assert "srtf" in text
    assert "<b>vision" not in text  # what people wrote is not markup


def test_a_shadow_says_what_would_have_been_in_the_week(tmp_path: Path) -> None:
    hour, origin = 3600.0, 1.8e9
    times = [(0.0, 0.0, 9.0), (200.0, 200.0, 209.0), (201.0, 209.0, 210.0)]  # hours
    seen = [
        SeenJob(
            str(n), "ann", "lab", "gpu", "COMPLETED", 1, 36_000.0,
            origin + came * hour, origin + began * hour, origin + done * hour,
        )
        for n, (came, began, done) in enumerate(times)
    ]  # fmt: skip
    (tmp_path / "seen.json").write_text(json.dumps([asdict(job) for job in seen]))
    page = tmp_path / "week.html"
    arguments = ["report", "--weekly", str(tmp_path), "-o", str(page), "--against", "srtf"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    assert '<tr><th scope="row">Slurm, as it was</th><td>4 h</td><td>9 h</td>' in text
    assert "srtf, with preemption" in text
    assert "What was assumed" in text
