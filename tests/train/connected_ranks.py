"""Ranks connected by gloo: they agree to stop, one dies, the examples are preempted.

Run by test_agreement.py in a process of its own. It imports PyTorch once and forks the ranks.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from tests.train.helpers import DEADLINE_SECONDS, EXAMPLES, FakeScheduler, free_port

from shockwave.train import RankLost, Session, session

ELASTIC_EPOCHS = 4


def train(job: Session, dies: bool, scheduler: FakeScheduler) -> dict[str, int]:
    steps = 0
    while not job.should_stop():
        steps += 1
        if job.rank == 1 and steps == 5:
            if dies:
                os._exit(0)
            os.kill(os.getpid(), signal.SIGTERM)  # only this rank is told
    return {"steps": steps}


def connect(rank: int, port: int, scheduler: FakeScheduler, ranks: int = 2) -> None:
    os.environ.update(scheduler.environment(rank, ranks))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")


def run_rank(rank: int, dies: bool, port: int, scheduler: FakeScheduler) -> None:

    import torch.distributed as distributed

    connect(rank, port, scheduler)
    distributed.init_process_group("gloo")
    found: dict[str, int | str]
    try:
        with session() as job:
            found = dict(train(job, dies, scheduler))
    except RankLost:
        found = {"error": "RankLost"}
    (scheduler.directory / f"rank-{rank}.json").write_text(json.dumps(found))


def fork(task: Callable[[], None]) -> int:
    """Runs ``task`` in a child; its exit code says whether it succeeded."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        task()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(children: list[int]) -> None:
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * len(children), codes


def run_example(rank: int, epochs: int, port: int, scheduler: FakeScheduler) -> None:
    connect(rank, port, scheduler)
    sys.argv = ["ddp_gloo.py", "--epochs", str(epochs)]
    outcome = scheduler.directory / f"outcome-{scheduler.generation}.json"
    with outcome.open("w" if rank == 0 else "a") as file, redirect_stdout(file):
        importlib.import_module("ddp_gloo").main()


def preempt_example(scheduler: FakeScheduler) -> None:
    port = free_port()
    ranks = [fork(partial(run_example, rank, 10_000, port, scheduler)) for rank in range(2)]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while scheduler.events().count("epoch") < 2:
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.02)
    os.kill(ranks[1], signal.SIGTERM)  # only one of them is told
    wait(ranks)
    epochs = scheduler.reports()[-1]["epoch"] + 2
    scheduler.launch(2)
    port = free_port()
    wait([fork(partial(run_example, rank, epochs, port, scheduler)) for rank in range(2)])


def run_elastic(rank: int, ranks: int, port: int, stop_in: int, scheduler: FakeScheduler) -> None:
    """The elastic example; this rank is told to stop in that call, if it is not 0."""
    connect(rank, port, scheduler, ranks)
    sys.argv = ["elastic_ddp.py", "--epochs", str(ELASTIC_EPOCHS)]
    asked, calls = Session.should_stop, 0

    def should_stop(job: Session) -> bool:
        nonlocal calls
        calls += 1
        if calls == stop_in:
            os.kill(os.getpid(), signal.SIGTERM)
        return asked(job)

    Session.should_stop = should_stop  # type: ignore[method-assign, assignment]
    outcome = scheduler.directory / f"outcome-{scheduler.generation}.json"
    with outcome.open("w" if rank == 0 else "a") as file, redirect_stdout(file):
        importlib.import_module("elastic_ddp").main()


def resize_example(scheduler: FakeScheduler, phases: Sequence[tuple[int, int]]) -> None:
    """One launch after the other, with so many ranks, each told to stop in that call."""
    for generation, (ranks, stop_in) in enumerate(phases, start=1):
        scheduler.launch(generation)
        port = free_port()
        wait(
            [
                fork(partial(run_elastic, rank, ranks, port, stop_in, scheduler))
                for rank in range(ranks)
            ]
        )


def main() -> None:

    import torch

    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    sys.path.insert(0, str(EXAMPLES))
    for example in ("ddp_gloo", "elastic_ddp"):  # imported once, for all the ranks to come
        importlib.import_module(example)
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    for dies in (False, True):
        scheduler = FakeScheduler(folder / ("dies" if dies else "agrees"))
        port = free_port()
        wait([fork(partial(run_rank, rank, dies, port, scheduler)) for rank in range(2)])
    preempt_example(FakeScheduler(folder / "example"))
    resize_example(FakeScheduler(folder / "undisturbed"), [(1, 0)])
    resize_example(FakeScheduler(folder / "resized"), [(1, 70), (4, 30), (2, 0)])


if __name__ == "__main__":
    main()
