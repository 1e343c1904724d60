"""What a launch tells the scheduler, and the clock of its epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

from shockwave.model.errors import InputError
from shockwave.protocol.reports import ReportWriter


class Reporter:
    """Writes the log of one launch; ``writes`` is whether this rank does.

    ``started`` comes first, whatever a loop tells first. The time of an epoch is what passed
    since the last boundary, without the time to restore a checkpoint and including the part of
    the epoch in earlier launches.
    """

    def __init__(
        self,
        log: ReportWriter,
        *,
        writes: bool,
        configuration: int | None,
        wall_clock: Callable[[], float],
        steady_clock: Callable[[], float],
    ) -> None:
        self.epochs_done = 0
        self.configuration = configuration
        self._log = log
        self._writes = writes
        self._wall_clock = wall_clock
        self._steady_clock = steady_clock
        self._started = False
        self._epoch_began = steady_clock()

    @property
    def records(self) -> list[dict[str, object]]:
        return list(self._log.records)

    @property
    def seconds_into_epoch(self) -> float:
        return self._steady_clock() - self._epoch_began

    def restored(self, epochs_done: int, facts: Mapping[str, Any]) -> None:
        """From a checkpoint with these facts; training time counts from now."""
        self.epochs_done = epochs_done
        saved_in = facts.get("configuration")
        self.configuration = self.configuration if saved_in is None else int(saved_in)
        self.begin_epoch(float(facts.get("seconds_into_epoch", 0.0)))

    def begin_epoch(self, seconds_before: float = 0.0) -> None:
        self._epoch_began = self._steady_clock() - seconds_before

    def facts(self) -> dict[str, object]:
        """What :meth:`restored` needs."""
        return {
            "configuration": self.configuration,
            "seconds_into_epoch": round(self.seconds_into_epoch, 6),
            "saved_at": self._wall_clock(),
        }

    def start(self, batch_size: int | None = None) -> None:
        """The first thing in the log."""
        if self._started:
            return
        self._started = True
        if self.configuration is None and batch_size is not None:
            self.configuration = int(batch_size)
        self._write("started", configuration=self.configuration)

    def epoch(
        self,
        epoch: int,
        batch_size: int,
        samples: int,
        loss: SupportsFloat,
        metrics: Mapping[str, SupportsFloat] | None,
    ) -> None:
        """Raises :class:`InputError` for fewer epochs than were reported already."""
        if epoch < self.epochs_done:
            raise InputError(
                f"epochs cannot be undone, {self.epochs_done} are reported already",
                place="epoch",
                value=epoch,
                hint="Begin at session.epochs_done",
            )
        self.regime(batch_size)
        seconds = self.seconds_into_epoch
        self.begin_epoch()
        self.epochs_done = epoch
        self._write(
            "epoch",
            durable=True,
            configuration=int(batch_size),
            samples=int(samples),
            loss=_number(loss),
            seconds=round(seconds, 6),
            **({"metrics": _numbers(metrics)} if metrics else {}),
        )

    def regime(self, batch_size: int) -> None:
        """Told where it is another than before."""
        self.start(batch_size)
        if batch_size != self.configuration:
            self.configuration = int(batch_size)
            self._write("regime", configuration=self.configuration)

    def metrics(self, metrics: Mapping[str, SupportsFloat]) -> None:
        self.start()
        self._write("metrics", metrics=_numbers(metrics))

    def link(self, name: str, url: str) -> None:
        self.start()
        self._write("link", name=name, url=url)

    def saved(self) -> None:
        self.start()
        self._write("saved")

    def end(self, stopped: bool) -> None:
        self.start()
        self._write("stopped" if stopped else "done", durable=True)

    def close(self) -> None:
        self._log.close()

    def _write(self, event: str, *, durable: bool = False, **fields: object) -> None:
        if not self._writes:
            return
        record: dict[str, object] = {
            "time": self._wall_clock(),
            "event": event,
            "epoch": self.epochs_done,
        }
        self._log.append(record | fields, durable=durable)


def _numbers(metrics: Mapping[str, SupportsFloat]) -> dict[str, float | None]:
    """JSON knows neither NaN nor infinity."""
    numbers = {name: _number(value) for name, value in metrics.items()}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


def _number(value: Any) -> float:
    """A float out of a number or a tensor of one element; ``item`` leaves its history behind."""
    return float(value.item() if hasattr(value, "item") else value)
