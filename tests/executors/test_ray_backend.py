"""Runs the tests of ``tests/executors/ray`` in a namespace of their own.

Ray's ports are open to whoever reaches them, so it gets a network that has only loopback; and
whatever it leaves behind ends with the namespace.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shockwave.executors import live
from shockwave.executors.ray import executor
from shockwave.executors.ray.options import RaySiteOptions
from shockwave.executors.ray.own_head import OwnHead
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.protocol.files import write_json
from shockwave.testing.ray_cluster import isolated, why_ray_cannot_run

INSIDE = Path(__file__).with_name("ray")
# Each has a cluster of its own, so that they can run side by side.
WHAT_GOES_WRONG = ("test_failures.py", "test_live_faults.py", "test_own_head.py")
WHAT_GOES_WELL = tuple(
    sorted({path.name for path in INSIDE.glob("test_*.py")} - set(WHAT_GOES_WRONG))
)
LIMIT_SECONDS = 900.0
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


@pytest.mark.parametrize("files", [WHAT_GOES_WELL, WHAT_GOES_WRONG], ids=["well", "wrong"])
def test_ray_in_its_own_namespace(files: tuple[str, ...]) -> None:
    problem = why_ray_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    command = [sys.executable, "-m", "pytest", "-q", "--maxfail=3", "--durations=10"]
    command += ["-p", "no:cacheprovider", *(str(INSIDE / name) for name in files)]
    try:
        done = subprocess.run(
            isolated(command),
            env={**os.environ, "SHOCKWAVE_TEST_RAY": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            preexec_fn=_die_with_parent,
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done in {LIMIT_SECONDS:.0f} s; so far:\n{_text(late.stdout)}")
    assert done.returncode == 0, _text(done.stdout)


def test_the_scheduler_itself_never_imports_ray() -> None:
    program = "import sys, shockwave.executors.ray.executor; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_ray_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda name: None)
    site = live.Site(
        state_dir=tmp_path,
        nodes=(),
        command_of=lambda job: Command(("true",), str(tmp_path)),
        origin_unix=0.0,
        clock=lambda: 0.0,
        grace_seconds=1.0,
    )
    with pytest.raises(InputError, match=r"pip install 'shockwave-scheduler\[ray\]'"):
        live.create("ray", site)


def test_the_address_of_a_remote_client_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"lose their gangs.*HOST:PORT of its head"):
        RaySiteOptions(address="ray://head:10001")
    assert RaySiteOptions(address="head:6379").address == "head:6379"


def test_a_head_that_is_long_gone_costs_nobody_their_process(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as sleeper:
        record = {"pid": sleeper.pid, "start_ticks": 1, "address": "127.0.0.1:1", "token": "x"}
        write_json(tmp_path / "ray-head.json", record)
        OwnHead(tmp_path, gpus=1).stop()
        assert sleeper.poll() is None
        assert not (tmp_path / "ray-head.json").exists()
        sleeper.kill()


def _text(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
