"""What jobs report is folded so that every epoch counts once, whatever they write."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.executors.gangs.ledger import Entered, Ledger
from shockwave.protocol.reports import EVENTS, Report, ReportReader, parse


def fold(*reports: tuple[str, int, int | None, float | None]) -> Ledger:
    ledger = Ledger((32, 64))
    for time, (event, epoch, configuration, seconds) in enumerate(reports):
        ledger.add(Report(event, float(time), epoch, configuration, seconds))
    return ledger


def regimes(ledger: Ledger) -> list[tuple[int, int]]:
    return [(regime.epoch, regime.configuration) for regime in ledger.regimes]


def test_epochs_that_a_restore_undid_do_not_count() -> None:
    ledger = fold(
        ("started", 0, 32, None),
        ("epoch", 1, 32, 1.0),
        ("epoch", 2, 32, 2.0),
        ("regime", 2, 64, None),
        ("epoch", 3, 64, 4.0),
        ("started", 1, 32, None),
    )
    assert (ledger.epochs_done, ledger.productive_seconds) == (1, 1.0)
    assert regimes(ledger) == [(0, 32)]
    assert ledger.regimes_after(Entered(2, 64)) == [Entered(1, 32, time=5.0)]


def test_a_silent_end_counts_only_what_was_saved_until_a_restore_knows_better() -> None:
    ledger = fold(("started", 0, 32, None), ("epoch", 1, 32, 1.0), ("epoch", 2, 32, 2.0))
    ledger.fall_back(1)
    assert (ledger.epochs_done, ledger.productive_seconds) == (1, 1.0)
    ledger.add(Report("started", 9.0, 2, 32))
    assert (ledger.epochs_done, ledger.productive_seconds) == (2, 3.0)


def test_what_a_crash_would_undo_begins_at_the_last_checkpoint() -> None:
    ledger = fold(("started", 0, 32, None), ("epoch", 1, 32, 1.0))
    assert math.isnan(ledger.unsaved_seconds(7.0)), "it never saved anything"
    ledger.add(Report("saved", 8.0, 1))
    assert ledger.unsaved_seconds(10.0) == 2.0
    assert ledger.last_event == "epoch"
    ledger.begin_launch()
    assert ledger.unsaved_seconds(20.0) == 0.0, "it has not done anything yet"
    ledger.add(Report("started", 21.0, 1))
    assert ledger.unsaved_seconds(25.0) == 4.0


def test_a_launch_has_started_up_when_it_begins_to_train() -> None:
    assert math.isnan(fold().trains_since)
    assert fold(("started", 3, 32, None), ("epoch", 4, 32, 1.0)).trains_since == 0.0
    silent = Ledger((32,))
    silent.add(Report("epoch", 9.0, 1, 32, 5.0))  # it did not say that it had started
    assert silent.trains_since == 4.0


def test_a_job_that_reports_epochs_only_has_regimes_too() -> None:
    ledger = fold(("epoch", 1, 32, 1.0), ("epoch", 2, 64, 1.0), ("epoch", 4, 64, 3.0))
    assert regimes(ledger) == [(0, 32), (1, 64)]
    assert ledger.epochs_done == 4
    assert ledger.epoch_seconds == pytest.approx(1.25)  # 1 s, then 3 s for two epochs


def test_nothing_is_measured_before_the_first_epoch_of_a_regime() -> None:
    ledger = fold(("started", 0, 32, None), ("epoch", 1, 32, 1.0), ("regime", 1, 64, None))
    assert math.isnan(ledger.epoch_seconds)


def test_a_configuration_that_was_never_declared_is_not_passed_on() -> None:
    ledger = fold(("started", 0, 32, None), ("regime", 1, 4096, None), ("epoch", 2, 4096, 1.0))
    assert regimes(ledger) == [(0, 32)]
    assert ledger.epochs_done == 2


def test_a_regime_is_news_once() -> None:
    ledger = fold(("started", 0, 32, None), ("epoch", 1, 32, 1.0), ("regime", 1, 64, None))
    assert [regime.epoch for regime in ledger.regimes_after(None)] == [0, 1]
    assert [regime.epoch for regime in ledger.regimes_after(Entered(0, 32))] == [1]
    assert ledger.regimes_after(Entered(1, 64)) == []


reports = st.builds(
    Report,
    event=st.sampled_from(EVENTS),
    time=st.floats(0, 1e9),
    epoch=st.integers(0, 12),
    configuration=st.sampled_from([None, 32, 64, 99]),
    seconds=st.one_of(st.none(), st.floats(0, 100)),
)


@settings(deadline=None)
@given(st.lists(reports, max_size=40), st.integers(0, 12))
def test_the_ledger_stays_in_order_whatever_is_reported(stream: list[Report], saved: int) -> None:
    ledger = Ledger((32, 64))
    told: Entered | None = None
    for report in stream:
        ledger.add(report)
        news = ledger.regimes_after(told)
        told = news[-1] if news else told
        assert ledger.regimes_after(told) == []
        # Whoever listens to the news knows the present configuration.
        if ledger.configuration is not None:
            assert told is not None
            assert told.configuration == ledger.configuration
        epochs = [regime.epoch for regime in ledger.regimes]
        assert epochs == sorted(set(epochs))
        neighbours = zip(ledger.regimes, ledger.regimes[1:], strict=False)
        assert all(a.configuration != b.configuration for a, b in neighbours)
        assert ledger.productive_seconds >= 0
    everything = ledger.productive_seconds
    ledger.fall_back(saved)
    assert ledger.productive_seconds <= everything
    assert ledger.epochs_done <= saved or ledger.epochs_done == 0


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(["event", "epoch", "time", "seconds", "configuration"]), inner
                )
            ),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_line_can_hurt(line: bytes) -> None:
    report = parse(line)
    if report is not None:
        assert report.event in EVENTS
        assert report.epoch >= 0
        assert math.isfinite(report.time)


def test_a_file_is_read_line_by_line_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "reports-1.jsonl"
    file = ReportReader(path)
    assert list(file.new()) == []
    line = json.dumps({"event": "epoch", "time": 1.0, "epoch": 1})
    path.write_text(line + "\nnot a report\n" + line[:10])
    assert [report.epoch for report in file.new()] == [1]
    with path.open("a") as growing:
        growing.write(line[10:])
    assert list(file.new()) == []  # not ended yet
    with path.open("a") as growing:
        growing.write("\n")
    assert [report.epoch for report in file.new()] == [1]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "reports-1.jsonl"
    file = ReportReader(path)
    path.write_bytes(b"x" * 3_000_000)
    assert list(file.new()) == []
    with path.open("ab") as growing:
        growing.write(b"\n" + json.dumps({"event": "done", "time": 1, "epoch": 4}).encode() + b"\n")
    assert [report.event for report in file.new()] == ["done"]
