"""A second scheduler stands by, and files of old jobs go."""

from __future__ import annotations

import threading
from pathlib import Path

import yaml
from tests.server.services import config, known, running, slow, submit, tiny, wait_for

from shockwave.server.archive import Archive
from shockwave.server.lock import StateLock
from shockwave.server.retention import remove_old_files
from shockwave.server.service import Service
from shockwave.server.store import Store

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "shockwave.rules.yml"


def test_a_scheduler_that_stands_by_takes_over_with_everything_that_is_known(
    tmp_path: Path,
) -> None:
    second = Service(slow(tmp_path, standby=True))
    with running(slow(tmp_path)) as first:
        job = submit(first, tiny(name="kept"))
        waiting = threading.Thread(target=second.start)
        waiting.start()
        waiting.join(1.5)
        assert waiting.is_alive(), "one is enough as long as it lives"
    waiting.join(60)
    try:
        assert known(second, job).name == "kept"
    finally:
        second.stop()


def test_who_waits_is_told_once_who_is_in_charge(tmp_path: Path) -> None:
    first, second = StateLock(tmp_path), StateLock(tmp_path)
    first.acquire()
    told: list[str] = []
    threading.Timer(0.3, first.release).start()
    second.wait(told.append, glance_seconds=0.05)
    second.release()
    assert len(told) == 1
    assert " on " in told[0]
    assert "since" in told[0]


def test_files_of_jobs_that_ended_long_ago_are_removed_and_their_facts_stay(
    tmp_path: Path,
) -> None:
    with running(config(tmp_path)) as service:
        old = submit(service, tiny(name="old"))
        wait_for(lambda: known(service, old).state == "finished", "the job")
        waits = submit(service, tiny(name="waits", epochs=10_000))
        wait_for(lambda: known(service, waits).state == "running", "the other job")
        ended = known(service, old).finished
        assert ended is not None
    store = Store(config(tmp_path).database, Archive(tmp_path / "archive"))
    folder = tmp_path / "jobs" / old
    assert remove_old_files(tmp_path, store, ended + 86_000.0, days=1.0) == []
    assert folder.is_dir()
    assert remove_old_files(tmp_path, store, ended + 86_500.0, days=1.0) == [old]
    store.close()
    assert not folder.exists()
    assert (tmp_path / "jobs" / waits).is_dir(), "a job that has not ended keeps its files"
    with running(slow(tmp_path, stop_jobs=True)) as service:
        assert known(service, old).epochs_done == 2


def test_alerts_ask_for_figures_that_there_are() -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    assert rules
    sources = Path(__file__).resolve().parents[2] / "src" / "shockwave" / "server"
    known_names = "".join(path.read_text() for path in sources.glob("*metrics.py"))
    for rule in rules:
        for word in rule["expr"].replace("(", " ").replace("{", " ").replace("[", " ").split():
            if word.startswith("shockwave_"):
                assert word.removesuffix("_total").rstrip(")") in known_names, word
