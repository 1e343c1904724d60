"""The actor that runs one part of a gang on its node.

It holds the GPUs in Ray's books and starts the part's supervisor, which knows how to run ranks.
It lives exactly as long as that one, so that Ray's list of actors tells which parts live. If it
is killed, the supervisor gets SIGTERM, and the ranks may save.

It is shipped to the nodes by value, so that they need nothing of Shockwave: this module imports
the standard library and Ray, and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

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
_SET_CHILD_SUBREAPER = 36  # prctl(2)
_SEEN_WITHIN_SECONDS = 30.0  # a file of another machine may take a moment to be seen
_GLANCE_SECONDS = 0.1
_END_SECONDS = 10.0
_DEVICES = "CUDA_VISIBLE_DEVICES"


class PartActor:
    """``argv`` runs the supervisor of ``part`` of launch ``generation``; ``folder`` is the job's.

    Raises :class:`FileNotFoundError` if the node does not see the folder.
    """

    def __init__(self, argv: Sequence[str], folder: str, generation: int, part: int) -> None:
        self._exit_record = Path(folder) / f"exit-{generation}-{part}.json"
        self._node = os.uname().nodename
        self._wait_until_seen(Path(folder) / f"launch-{generation}.json")
        with suppress(OSError, AttributeError):  # ranks without a supervisor become our children
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        python = sys.executable  # of this node, wherever the scheduler has its own
        with (Path(folder) / "logs" / f"supervisor-{part}.log").open("wb") as output:
            self._tie = subprocess.Popen(
                [python, "-I", "-S", "-c", _TIE, str(os.getpid()), python, *argv[1:]],
                cwd=folder,
                env=environment_of_the_node(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ray kills the group of an actor that ends
            )
        self._generation = generation
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
        if not self._exit_record.exists():
            self._tell(code)
        _end_this_actor()

    def _tell(self, code: int) -> None:
        """Writes the record that a supervisor does not write if it is killed itself."""
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        record = {
            "generation": self._generation,
            "node": self._node,
            "codes": [],
            "asked": False,
            "error": f"the process that watches over it on {self._node} {how}",
            "ended": time.time(),
        }
        temporary = self._exit_record.with_name(f".{self._exit_record.name}.{os.getpid()}.tmp")
        with suppress(OSError):
            temporary.write_text(json.dumps(record))
            temporary.replace(self._exit_record)


def environment_of_the_node() -> dict[str, str]:
    """The environment as it is on the node, without what Ray adds for its own workers.

    It comes from the process that started us. Of Ray's additions only the GPUs stay.
    """
    try:
        raw = Path(f"/proc/{os.getppid()}/environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return dict(os.environ)
    before = dict(pair.split("=", 1) for pair in raw.split("\0") if "=" in pair)
    return _without_additions(os.environ, before or os.environ)


def _without_additions(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """
    >>> _without_additions(
    ...     {"PATH": "/bin", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "2"}, {"PATH": "/bin"}
    ... )
    {'PATH': '/bin', 'CUDA_VISIBLE_DEVICES': '2'}
    """
    return {
        name: value for name, value in now.items() if name == _DEVICES or before.get(name) == value
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
    while found := _below(root):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_GLANCE_SECONDS)


def _below(root: int) -> list[int]:
    """All living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                children.setdefault(int(parent), [])
                if state not in ("Z", "X"):
                    children[int(parent)].append(int(entry.name))
    found = list(children.get(root, []))
    for pid in found:
        found += children.get(pid, [])
    return found
