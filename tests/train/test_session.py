"""A training loop sees the same session with and without a scheduler."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.train.helpers import FakeScheduler, finish, start

from shockwave.model.errors import InputError
from shockwave.protocol.lease import LeaseFile
from shockwave.train import Fenced, session
from shockwave.train.agreement import CollectiveAgreement


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def scheduler(tmp_path: Path) -> FakeScheduler:
    return FakeScheduler(tmp_path / "job")


def test_importing_it_imports_no_framework() -> None:
    script = (
        "import sys, shockwave.train, shockwave.train.adapt, shockwave.train.dataloader,"
        " shockwave.train.lightning, shockwave.train.huggingface,"
        " shockwave.train.adapt.torch_pruning, shockwave.train.adapt.torch_gradients\n"
        "heavy = {'torch', 'lightning', 'transformers', 'accelerate'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    finish(start(["-c", script], {}))


def test_the_log_of_a_whole_life(scheduler: FakeScheduler) -> None:
    clock = FakeClock()
    environment = scheduler.environment()
    with session(
        epochs=4, batch_size=32, environment=environment, wall_clock=clock, steady_clock=clock
    ) as job:
        assert (job.job, job.generation, job.rank, job.world_size) == ("job-1", 1, 0, 1)
        assert job.load() is None
        clock.now += 5.0
        job.report(1, batch_size=32, samples=100, loss=0.9)
        clock.now += 4.0
        job.report(2, batch_size=32, samples=100, loss=float("nan"))
        clock.now += 1.0
        job.save({"w": 1})
        scheduler.lease(stop=True)
        clock.now += 1.0
        assert job.should_stop()
    assert scheduler.events() == ["started", "epoch", "epoch", "saved", "stopped"]
    assert scheduler.reports()[1] == {
        "time": 105.0,
        "event": "epoch",
        "epoch": 1,
        "configuration": 32,
        "samples": 100,
        "loss": 0.9,
        "seconds": 5.0,
    }
    assert scheduler.reports()[2]["loss"] is None

    scheduler.launch(2)
    clock.now = 500.0
    environment = scheduler.environment()
    with session(
        epochs=4, batch_size=32, environment=environment, wall_clock=clock, steady_clock=clock
    ) as job:
        clock.now += 20.0  # imports, building the model: not training
        assert job.load() == {"w": 1}
        assert (job.epochs_done, job.generation) == (2, 2)
        clock.now += 3.0
        job.report(3, batch_size=64, samples=100, loss=0.5)
        clock.now += 2.0
        job.report(4, batch_size=64, samples=100, loss=0.4)
    events = scheduler.reports()
    assert [r["event"] for r in events] == ["started", "regime", "epoch", "epoch", "done"]
    assert (events[0]["epoch"], events[0]["configuration"]) == (2, 32)
    assert (events[1]["epoch"], events[1]["configuration"]) == (2, 64)
    # One second of the third epoch was before the save in the first launch.
    assert events[2]["seconds"] == 4.0
    assert events[3]["seconds"] == 2.0
    assert events[4]["epoch"] == 4


def test_a_regime_can_be_announced_before_its_first_epoch(scheduler: FakeScheduler) -> None:
    with session(batch_size=32, environment=scheduler.environment()) as job:
        job.report(1, batch_size=32, samples=1, loss=0.0)
        job.configure(64)
        job.report(2, batch_size=64, samples=1, loss=0.0)
    kinds = [(r["event"], r["epoch"]) for r in scheduler.reports()]
    assert kinds == [("started", 0), ("epoch", 1), ("regime", 1), ("epoch", 2), ("done", 2)]


def test_a_job_that_has_all_its_epochs_is_done_even_if_asked_to_stop(
    scheduler: FakeScheduler,
) -> None:
    with session(epochs=1, environment=scheduler.environment()) as job:
        job.report(1, batch_size=8, samples=1, loss=0.0)
        scheduler.lease(stop=True)
        job.save({})
        assert job.should_stop()
    assert scheduler.events()[-1] == "done"


def test_leaving_by_sys_exit_is_clean_and_by_an_error_is_not(scheduler: FakeScheduler) -> None:
    with (
        pytest.raises(SystemExit),
        session(environment=scheduler.environment()),
    ):
        sys.exit(0)
    assert scheduler.events() == ["started", "done"]
    scheduler.launch(2)
    with pytest.raises(ZeroDivisionError), session(environment=scheduler.environment()) as job:
        job.report(1 // job.epochs_done, batch_size=8, samples=1, loss=0.0)
    assert scheduler.events() == []


def test_other_ranks_write_nothing(scheduler: FakeScheduler) -> None:
    with session(environment=scheduler.environment(rank=1, world_size=2)) as job:
        job.report(1, batch_size=8, samples=1, loss=0.0)
        assert job.save({"n": 1}) is None
        assert job.reports == []
    assert sorted(path.name for path in scheduler.directory.iterdir()) == ["lease.json"]


def test_a_replaced_launch_may_neither_save_nor_report(scheduler: FakeScheduler) -> None:
    def train() -> None:
        with session(environment=scheduler.environment()) as job:
            job.report(1, batch_size=8, samples=1, loss=0.0)
            scheduler.launch(2)
            with pytest.raises(Fenced):
                job.save({"n": 1})
            with pytest.raises(Fenced):
                job.report(2, batch_size=8, samples=1, loss=0.0)
            assert job.should_stop(), "it also leaves its loop"

    with pytest.raises(Fenced, match="generation 2"):  # it must not end as if it were done
        train()
    assert scheduler.events(1) == ["started", "epoch"]
    assert not (scheduler.directory / "checkpoints").exists()


def test_a_lease_left_by_an_earlier_launch_says_nothing(scheduler: FakeScheduler) -> None:
    scheduler.lease(stop=True)
    environment = scheduler.environment() | {"SHOCKWAVE_GENERATION": "2"}
    with session(environment=environment) as job:
        assert not job.should_stop()


def test_a_lease_that_is_lost_does_not_stop_the_job(scheduler: FakeScheduler) -> None:
    lease = scheduler.directory / "lease.json"
    with session(environment=scheduler.environment()) as job:
        assert not job.should_stop()
        lease.unlink()
        assert not job.should_stop()
        job.save({"n": 1})


def test_a_damaged_lease_leaves_the_last_one_in_force(tmp_path: Path) -> None:
    clock = FakeClock()
    scheduler = FakeScheduler(tmp_path)
    lease = LeaseFile(tmp_path / "lease.json", clock=clock)
    first = lease.read()
    assert first is not None
    (tmp_path / "lease.json").write_text("{half")
    assert lease.read() == first
    scheduler.lease(stop=True)
    assert lease.glance() == first, "a glance within 0.2 s does not look at the disk"
    clock.now += 0.3
    glanced = lease.glance()
    assert glanced is not None
    assert glanced.stop


def test_without_a_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for launch in (1, 2):
        with session(batch_size=8, environment={}) as job:
            assert job.job is None
            state = job.load() or {"launches": 0}
            assert state["launches"] == launch - 1
            assert not job.should_stop()
            job.report(job.epochs_done + 1, batch_size=8, samples=1, loss=0.0)
            job.save({"launches": launch})
            assert [r["event"] for r in job.reports] == ["started", "epoch", "saved"]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_only_sets_a_flag(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with session(tmp_path, environment={}) as job:
        assert not job.should_stop()
        os.kill(os.getpid(), number)
        while not job.should_stop():  # another thread may get it first
            time.sleep(0.01)
        assert job.should_stop(), "it stays so"
    assert signal.getsignal(number) is before


def test_a_second_interrupt_is_obeyed_at_once(tmp_path: Path) -> None:
    # As at a terminal; whoever runs the tests may ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt_twice(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_twice(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), session(tmp_path, environment={}) as job:  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        while not job.should_stop():  # two that come at once may be one
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60.0)


def test_it_works_in_a_thread(tmp_path: Path) -> None:
    answers: list[bool] = []

    def train() -> None:
        with session(tmp_path, environment={}) as job:
            answers.append(job.should_stop())

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert answers == [False]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RANK", "x"),
        ("RANK", "2"),
        ("WORLD_SIZE", "0"),
        ("SHOCKWAVE_GENERATION", "one"),
        ("SHOCKWAVE_DIR", "/does/not/exist"),
        ("SHOCKWAVE_GRACE_SECONDS", "-1"),
    ],
)
def test_a_bad_environment_is_named(scheduler: FakeScheduler, variable: str, value: str) -> None:
    environment = scheduler.environment() | {variable: value}
    with (
        pytest.raises(InputError, match=variable) as caught,
        session(environment=environment),
    ):
        pass
    assert caught.value.source == "environment"


def test_epochs_cannot_go_back(scheduler: FakeScheduler) -> None:
    with session(environment=scheduler.environment()) as job:
        job.report(3, batch_size=8, samples=1, loss=0.0)
        with pytest.raises(InputError, match="epochs_done"):
            job.report(2, batch_size=8, samples=1, loss=0.0)


@pytest.mark.parametrize("every", [1, 3])
def test_connected_ranks_agree_in_every_nth_call(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    asked: list[bool] = []

    def agree(_: CollectiveAgreement, stop: bool, save: bool) -> tuple[bool, bool]:
        asked.append(stop)
        return len(asked) == 2, save  # another rank wants to stop

    monkeypatch.setattr(CollectiveAgreement, "available", staticmethod(lambda: True))
    monkeypatch.setattr(CollectiveAgreement, "agree", agree)
    with session(environment=scheduler.environment(), agree_every=every) as job:
        answers = [job.should_stop() for _ in range(2 * every)]
        assert answers == [False] * (2 * every - 1) + [True]
        assert asked == [False, False]
        assert job.should_stop(), "it stays so"
        assert len(asked) == 2, "after the agreement nobody may wait in a collective"


def test_a_save_is_due_after_so_many_seconds_and_when_the_job_stops(
    scheduler: FakeScheduler,
) -> None:
    seconds = [0.0]
    with session(
        environment=scheduler.environment(), save_every=10.0, steady_clock=lambda: seconds[0]
    ) as job:
        job._lease._glance_seconds = 0.0  # type: ignore[union-attr]
        due = []
        for seconds[0] in range(25):
            assert not job.should_stop()
            due.append(job.should_save())
            if job.should_save():
                job.save({"second": seconds[0]})
        assert [second for second, is_due in enumerate(due) if is_due] == [10, 20]
        scheduler.lease(stop=True)
        assert job.should_stop()
        assert job.should_save()


def test_a_session_that_knows_the_state_saves_by_itself(scheduler: FakeScheduler) -> None:
    seconds, state = [0.0], {"step": 0}
    with session(
        environment=scheduler.environment(),
        save_every=10.0,
        state=lambda: dict(state),
        steady_clock=lambda: seconds[0],
    ) as job:
        for step in range(15):
            seconds[0] = state["step"] = step
            job.should_stop()
    scheduler.launch(2)
    with session(environment=scheduler.environment()) as job:
        assert job.load() == {"step": 10}


@pytest.mark.parametrize("wrong", [{"save_every": 0.0}, {"state": dict}])
def test_a_session_that_could_never_save_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="save_every"), session(environment={}, **wrong):
        pass


def test_a_lost_report_does_not_end_the_training(
    scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    (scheduler.directory / "reports-1.jsonl").symlink_to("/dev/full")
    with session(environment=scheduler.environment()) as job:
        job.report(1, batch_size=8, samples=1, loss=0.0)
        assert len(job.reports) == 2
    assert "was lost" in caplog.text
