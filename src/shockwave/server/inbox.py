"""What people ask for, kept until the round loop takes it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from shockwave.engine.arrivals import Arrivals, CancelJob, Request
from shockwave.model.job import JobSpec


class Inbox(Arrivals):
    """A thread-safe feed: doors put in, the loop takes out. All of it is in the store too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._specs: deque[JobSpec] = deque()
        self._requests: list[Request] = []

    def submit(self, spec: JobSpec) -> None:
        with self._lock:
            self._specs.append(spec)

    def ask(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)

    def refill(self, specs: Iterable[JobSpec], requests: Iterable[Request]) -> None:
        """After a restart: what the store has and the journal has not."""
        with self._lock:
            self._specs = deque(specs)
            self._requests = list(requests)

    def due(self, now: float) -> list[JobSpec]:
        with self._lock:
            taken = []
            while self._specs and self._specs[0].arrival_seconds <= now:
                taken.append(self._specs.popleft())
            return taken

    def next_arrival(self) -> float:
        return 0.0  # somebody may submit at any time

    def requests(self) -> list[Request]:
        """A cancellation waits until its job has been handed out, or it would be lost."""
        with self._lock:
            pending = {spec.id for spec in self._specs}
            later: list[Request] = [
                request
                for request in self._requests
                if isinstance(request, CancelJob) and request.job in pending
            ]
            now = [request for request in self._requests if request not in later]
            self._requests = later
            return now
