"""The actor that runs one part of a gang on its node.

It holds the GPUs in Ray's books and starts the part's supervisor, which knows how to run ranks.
It lives exactly as long as that one, so that Ray's list of actors tells which parts live. If it
is killed, the supervisor gets SIGTERM, and the ranks may save.

It is shipped to the nodes by value, and the protocol with it, so that they need nothing of
Shockwave: this module imports those two, the standard library and Ray, and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from shockwave.protocol.environment import DEVICES
from shockwave.protocol.processes import (
    adopt_orphans,
    descendants,
    environment_of,
    signal_process,
)
from shockwave.protocol.records import ExitRecord

# A process between actor and supervisor: an actor whose node ends kills its children at once, and
# the supervisor must not be one of them. It ends with the actor, however that ends, and then the
# kernel asks the supervisor to stop. (In the actor itself, which has Ray's threads, no code of
# ours may run between fork and exec.)
_TIE = """\
import ctypes, os, signal, sys
end_with_parent = ctypes.CDLL(None).prctl
end_with_parent(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]): sys.exit()
tie, supervisor = os.getpid(), os.fork()
if not supervisor:
    os.setsid()
    end_with_parent(1, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != tie: sys.exit()
    os.execv(sys.argv[2], sys.argv[2:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(supervisor, signal.SIGTERM))
code = os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])
signal.signal(signal.SIGTERM, signal.SIG_DFL)
if code < 0: os.kill(tie, -code)
sys.exit(code)
"""
_SEEN_WITHIN_SECONDS = 30.0  # a file of another machine may take a moment to be seen
_GLANCE_SECONDS = 0.1
_END_SECONDS = 10.0


class PartActor:
    """Runs the supervisor of one part of a gang, both as the scheduler orders them.

    Raises :class:`FileNotFoundError` if the node does not see the job's folder.
    """

    def __init__(self, gang: Mapping[str, Any], part: Mapping[str, Any]) -> None:
        self._generation: int = gang["generation"]
        self._exit_file = Path(part["exit_file"])
        self._node = os.uname().nodename
        self._wait_until_seen(Path(gang["launch_file"]))
        adopt_orphans()  # ranks without a supervisor become our children
        python = sys.executable  # of this node, wherever the scheduler has its own
        with Path(part["log"]).open("wb") as output:
            self._tie = subprocess.Popen(
                [python, "-I", "-S", "-c", _TIE, str(os.getpid()), python, *part["argv"][1:]],
                cwd=gang["folder"],
                env=environment_of_the_node(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ray kills the group of an actor that ends
            )
        threading.Thread(target=self._end_with_it, daemon=True).start()

    def terminate(self) -> None:
        """The ranks are asked to save and leave."""
        self._tie.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Everything ends at once."""
        _kill_below(os.getpid())

    def _wait_until_seen(self, record: Path) -> None:
        deadline = time.monotonic() + _SEEN_WITHIN_SECONDS
        while not record.exists():
            if time.monotonic() > deadline:
                raise FileNotFoundError(f"{self._node} does not see {record}")
            time.sleep(_GLANCE_SECONDS)

    def _end_with_it(self) -> None:
        code = self._tie.wait()
        _kill_below(os.getpid())
        if not self._exit_file.exists():
            self._tell(code)
        _end_this_actor()

    def _tell(self, code: int) -> None:
        """Writes the record that a supervisor does not write if it is killed itself."""
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        what = f"the process that watches over it on {self._node} {how}"
        record = ExitRecord(
            self._generation,
            self._node,
            time.time(),
            error=None if code < 0 else what,
            unwatched=what if code < 0 else None,
        )
        with suppress(OSError):
            record.write(self._exit_file)


def environment_of_the_node() -> dict[str, str]:
    """The environment as it is on the node, without what Ray adds for its own workers.

    It comes from the process that started us. Of Ray's additions only the GPUs stay.
    """
    return _without_additions(os.environ, environment_of(os.getppid()) or os.environ)


def _without_additions(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """
    >>> _without_additions(
    ...     {"PATH": "/bin", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "2"}, {"PATH": "/bin"}
    ... )
    {'PATH': '/bin', 'CUDA_VISIBLE_DEVICES': '2'}
    """
    return {
        name: value for name, value in now.items() if name == DEVICES or before.get(name) == value
    }


def _end_this_actor() -> None:
    """Ray's way first: it takes every other end of an actor for a failure, and says so."""
    import ray

    reserve = threading.Timer(_END_SECONDS, os._exit, [0])  # its head may be away
    reserve.daemon = True
    reserve.start()
    ray.kill(ray.get_runtime_context().current_actor)


def _kill_below(root: int) -> None:
    """SIGKILL to every descendant; what they start in the meantime is found the next time."""
    while found := descendants(root):
        for pid in found:
            signal_process(pid, signal.SIGKILL)
        time.sleep(_GLANCE_SECONDS)
