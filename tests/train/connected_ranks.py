"""Two ranks connected by gloo: they agree to stop, one dies, the example is preempted.

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
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from tests.train.helpers import DEADLINE_SECONDS, EXAMPLES, FakeScheduler, free_port

from shockwave.train import RankLost, Session, session


def train(job: Session, dies: bool, scheduler: FakeScheduler) -> dict[str, int]:
    steps = 0
    while not job.should_stop():
        steps += 1
        if job.rank == 1 and steps == 5:
            if dies:
                os._exit(0)
            os.kill(os.getpid(), signal.SIGTERM)  # only this rank is told
    return {"steps": steps}


def connect(rank: int, port: int, scheduler: FakeScheduler) -> None:
    os.environ.update(scheduler.environment(rank, 2))
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


def main() -> None:

    import torch

    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    sys.path.insert(0, str(EXAMPLES))
    importlib.import_module("ddp_gloo")  # imported once, for all the ranks to come
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    for dies in (False, True):
        scheduler = FakeScheduler(folder / ("dies" if dies else "agrees"))
        port = free_port()
        wait([fork(partial(run_rank, rank, dies, port, scheduler)) for rank in range(2)])
    preempt_example(FakeScheduler(folder / "example"))


if __name__ == "__main__":
    main()
