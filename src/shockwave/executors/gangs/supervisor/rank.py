"""A process of a gang. In place of :mod:`subprocess`, which is long to load while GPUs wait."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence

_GO_ON = (errno.ENOENT, errno.ENOTDIR)  # it may be in the next folder of the PATH
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Rank:
    """Runs ``argv`` in ``workdir``, what it writes goes to the pipe ``output``.

    It joins the process group of ``leader``, or leads one of its own. Of our open files it inherits
    those that are inheritable, see :func:`keep_to_ourselves`. Raises :class:`OSError` or
    :class:`ValueError` if it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        workdir: str,
        environment: Mapping[str, str],
        leader: int | None,
    ) -> None:
        self.returncode: int | None = None  # negative for a signal
        self.output, writing = os.pipe()
        before = os.open(".", os.O_RDONLY)
        try:
            os.chdir(workdir)
            self.pid = _spawn(argv, environment, leader or 0, writing)
        except BaseException:
            os.close(self.output)
            raise
        finally:
            os.fchdir(before)
            os.close(before)
            os.close(writing)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        """Until it has ended; its exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def keep_to_ourselves(but: Sequence[int]) -> None:
    """No process that we start inherits a file that we have open now, but these and the usual."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        descriptor = int(name)
        if descriptor > 2 and descriptor not in but:
            try:
                os.set_inheritable(descriptor, False)
            except OSError:  # the one that listed them
                continue


def _spawn(argv: Sequence[str], environment: Mapping[str, str], group: int, output: int) -> int:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    program = argv[0]
    folders = [""] if os.path.dirname(program) else os.get_exec_path(dict(environment))
    failure: OSError | None = None
    for folder in folders:
        try:
            return os.posix_spawn(
                os.path.join(folder, program),
                list(argv),
                environment,
                file_actions=actions,
                setpgroup=group,
                setsigdef=_IGNORED_BY_PYTHON,
            )
        except OSError as error:
            if failure is None or failure.errno in _GO_ON:
                failure = error
    if failure is None or failure.errno in _GO_ON:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    raise failure
