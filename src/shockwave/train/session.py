"""A training job's side of the lease: when to stop, what to report, where to save.

The same loop runs under the scheduler and without it::

    with session(epochs=20, batch_size=32) as job:
        state = job.load() or fresh_state()
        for epoch in range(job.epochs_done, 20):
            loss = train_one_epoch(state)
            job.report(epoch + 1, batch_size=32, samples=50_000, loss=loss)
            job.save(state)
            if job.should_stop():
                break

Epochs that take long are saved in between where the loop asks for it: ``session(save_every=600)``
makes :meth:`Session.should_save` true every ten minutes, and ``session(save_every=600,
state=lambda: state)`` saves by itself in :meth:`Session.should_stop`.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsFloat

from shockwave.model.errors import InputError
from shockwave.protocol.lease import LeaseFile
from shockwave.protocol.paths import JobPaths
from shockwave.protocol.reports import ReportWriter
from shockwave.train.agreement import CollectiveAgreement, FileAgreement
from shockwave.train.checkpoints import CheckpointStore, WorldSizes
from shockwave.train.codecs import Codec
from shockwave.train.environment import JobEnvironment
from shockwave.train.errors import Fenced
from shockwave.train.reporting import Reporter
from shockwave.train.share import Share
from shockwave.train.signals import StopSignals

Clock = Callable[[], float]
SAVE_EVERY_SECONDS = 600.0  # where a framework saves for the session


@contextmanager
def session(
    checkpoints: str | Path = "checkpoints",
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    codec: Codec | None = None,
    save_every: float | None = None,
    state: Callable[[], Any] | None = None,
    agree_every: int = 1,
    world_sizes: WorldSizes = "any",
    environment: Mapping[str, str] | None = None,
    wall_clock: Clock = time.time,
    steady_clock: Clock = time.monotonic,
) -> Iterator[Session]:
    """Opens the session of this process; on leaving it, says whether the job is done.

    ``checkpoints`` is the folder without a scheduler; under one the job's directory is used.
    ``epochs`` is the job's total: a job asked to stop when it has them all counts as done.
    ``batch_size`` (or the size of the model) is the configuration a fresh job begins in.
    ``save_every`` is how many seconds of work may be lost when the process is killed; with
    ``state``, which returns what :meth:`Session.save` takes, the session saves by itself.
    ``agree_every`` lets ranks agree only in every n-th call of ``should_stop``, where an
    all-reduce of one number in each step would show. ``world_sizes`` are the numbers of ranks
    that can load what the job saves: ``"any"``, where rank 0 saves all of the state; ``"same"``,
    where every rank has a part of it; or those that are listed. Raises :class:`InputError` for an
    environment that makes no sense.
    """
    who = JobEnvironment.read(os.environ if environment is None else environment)
    opened = Session(
        who,
        Path(checkpoints),
        epochs=epochs,
        batch_size=batch_size,
        codec=codec,
        save_every=save_every,
        state=state,
        agree_every=agree_every,
        world_sizes=world_sizes,
        wall_clock=wall_clock,
        steady_clock=steady_clock,
    )
    opened.listen()
    try:
        yield opened
        opened.finish()
    except SystemExit as leaving:
        if leaving.code in (None, 0):  # sys.exit() inside the block is a clean way out
            opened.finish()
        raise
    finally:
        opened.close()


class Session:
    """What a training loop asks and tells. Made by :func:`session`."""

    def __init__(
        self,
        who: JobEnvironment,
        checkpoints: Path,
        *,
        epochs: int | None,
        batch_size: int | None,
        codec: Codec | None,
        save_every: float | None,
        state: Callable[[], Any] | None,
        agree_every: int,
        world_sizes: WorldSizes,
        wall_clock: Clock,
        steady_clock: Clock,
    ) -> None:
        if agree_every < 1:
            raise InputError("must be 1 or more", place="agree_every", value=agree_every)
        if save_every is not None and save_every <= 0:
            raise InputError("must be above 0 seconds", place="save_every", value=save_every)
        if state is not None and save_every is None:
            raise InputError("is never saved", place="state", hint="Say how often: save_every=600")
        self.save_every = save_every  # seconds; None: only when the loop wants it
        self._state = state
        self._who = who
        self._epochs = epochs
        self._agree_every = agree_every
        self._steady_clock = steady_clock
        paths = None if who.directory is None else JobPaths(who.directory)
        self._lease: LeaseFile | None = None
        self._by_file: FileAgreement | None = None
        if paths is not None:
            self._lease = LeaseFile(paths.lease_file, clock=steady_clock)
            if who.world_size > 1:
                self._by_file = FileAgreement(
                    paths,
                    generation=who.generation,
                    rank=who.rank,
                    patience_seconds=who.grace_seconds / 2,
                    clock=steady_clock,
                )
        self._collective = CollectiveAgreement()
        self._store = CheckpointStore(
            checkpoints if paths is None else paths.checkpoints,
            generation=None if paths is None else who.generation,
            codec=codec,
            world_size=who.world_size,
            world_sizes=world_sizes,
            fence=self._refuse_if_fenced,
        )
        is_told = paths is not None and who.rank == 0
        self._reporter = Reporter(
            ReportWriter(paths.reports(who.generation) if paths and is_told else None),
            writes=who.rank == 0,
            configuration=batch_size,
            wall_clock=wall_clock,
            steady_clock=steady_clock,
        )
        # Ctrl-C belongs to a person at a terminal; the scheduler only ever sends SIGTERM.
        asked_by = (signal.SIGTERM, signal.SIGINT) if paths is None else (signal.SIGTERM,)
        self._signals = StopSignals(asked_by)
        self._calls = 0
        self._stopping = False
        self._saved_at = steady_clock()
        self._save_due = False

    @property
    def job(self) -> str | None:
        """The scheduler's name for this job; None without a scheduler."""
        return self._who.job

    @property
    def generation(self) -> int:
        """The number of this launch, from 1."""
        return self._store.generation

    @property
    def rank(self) -> int:
        return self._who.rank

    @property
    def world_size(self) -> int:
        return self._who.world_size

    @property
    def epochs_done(self) -> int:
        """Epochs finished since the job's beginning, over all launches."""
        return self._reporter.epochs_done

    @property
    def configuration(self) -> int | None:
        """The batch size (or model size) in use: the restored one after :meth:`load`."""
        return self._reporter.configuration

    @property
    def scratch_folder(self) -> Path:
        """Where a framework may write its own checkpoint before :meth:`save` takes it in.

        The same on all ranks of a launch; removed when the session ends.
        """
        return self._store.scratch_folder

    @property
    def stopping(self) -> bool:
        """Whether :meth:`should_stop` has said so already; asks nobody, costs nothing."""
        return self._stopping

    @property
    def reports(self) -> list[dict[str, object]]:
        """What rank 0 of this launch reported so far."""
        return self._reporter.records

    def share(self, batch_size: int, most_at_once: int | None = None) -> Share:
        """This rank's part of a global batch, in steps of ``most_at_once`` samples at most.

        The global batch stays what it is whatever the number of ranks; see
        :mod:`shockwave.train.share`.
        """
        return Share(batch_size, self.rank, self.world_size, most_at_once)

    def should_stop(self) -> bool:
        """Whether to save and leave now. Call it at every step boundary, on every rank.

        True after SIGTERM, after the scheduler took the lease back, or when a newer launch has
        taken over; once True it stays True. All ranks get the same answer in the same call
        (see :mod:`shockwave.train.agreement`), so no rank is left behind in a collective.
        Saves before it answers, where the session has a ``state`` and a save is due.
        """
        self._reporter.start()
        if not self._stopping:
            self._calls += 1
            self._ask_everybody()
            if self._state is not None and self.should_save():
                self.save(self._state())
        return self._stopping

    def should_save(self) -> bool:
        """Whether to save now: it is time again, or the job stops.

        As of the last call of :meth:`should_stop`, and so the same on all ranks.
        """
        return self._stopping or self._save_due

    def _ask_everybody(self) -> None:
        stop = self._stop_wanted()
        waited = self._steady_clock() - self._saved_at
        save = self.save_every is not None and waited >= self.save_every
        if CollectiveAgreement.available():
            if self._calls % self._agree_every:
                return
            self._stopping, self._save_due = self._collective.agree(stop, save)
        else:
            self._save_due = save
            self._stopping = stop if self._by_file is None else self._by_file.agree(stop)

    def report(
        self,
        epoch: int,
        batch_size: int,
        samples: int,
        loss: SupportsFloat,
        metrics: Mapping[str, SupportsFloat] | None = None,
    ) -> None:
        """Tells the scheduler that ``epoch`` epochs are done in total; only rank 0 writes.

        ``metrics`` are figures that ``shockwave metrics`` shows beside the loss.

        ``batch_size`` is what this epoch ran with; a change since the epoch before is reported
        as a new regime. The duration is what passed since the last boundary, without the time
        to restore a checkpoint and including the part of the epoch in earlier launches.
        Raises :class:`Fenced` if a newer launch has taken over.
        """
        self._refuse_if_fenced()
        self._reporter.epoch(epoch, batch_size, samples, loss, metrics)

    def log(self, **metrics: SupportsFloat) -> None:
        """Figures within an epoch, for ``shockwave metrics``; only rank 0 writes."""
        self._reporter.metrics(metrics)

    def link(self, name: str, url: str) -> None:
        """Where else to look at this job, such as TensorBoard; ``shockwave status`` shows it."""
        self._reporter.link(name, url)

    def configure(self, batch_size: int) -> None:
        """Tells the scheduler at once that the next epoch runs with another batch size.

        Optional: :meth:`report` finds out one epoch later.
        """
        self._refuse_if_fenced()
        self._reporter.regime(batch_size)

    def save(self, state: Any, *, world_sizes: WorldSizes | None = None) -> Path | None:
        """Writes a checkpoint; ranks other than 0 only check that they were not replaced.

        ``state`` is nested dicts and lists of numbers, strings, arrays and tensors, or the path
        of a folder that some framework wrote. ``world_sizes`` says who can load it, where that is
        not what holds for the session. Raises :class:`Fenced`, :class:`InputError` or
        :class:`~shockwave.train.errors.CheckpointError`; the older checkpoints stay intact.
        """
        self._refuse_if_fenced()
        self._save_due, self._saved_at = False, self._steady_clock()
        if self.rank != 0:
            return None
        path = self._store.save(
            state,
            epoch=self.epochs_done,
            facts=self._reporter.facts(),
            world_sizes=world_sizes,
        )
        self._reporter.saved()
        return path

    def load(self) -> Any | None:
        """The state of the newest checkpoint that is whole, or None; on every rank.

        Sets :attr:`epochs_done` and :attr:`configuration` to what was saved with it. Training
        time counts from the end of this call. Raises
        :class:`~shockwave.train.errors.CheckpointError` for one that this number of ranks cannot
        load, and says what to do.
        """
        checkpoint = self._store.latest()
        if checkpoint is None:
            self._reporter.begin_epoch()
        else:
            self._reporter.restored(checkpoint.epoch, checkpoint.facts)
        self._saved_at = self._steady_clock()
        self._reporter.start()
        return None if checkpoint is None else checkpoint.state

    def listen(self) -> None:
        """Installs the signal handlers, or takes them back from a framework."""
        self._signals.listen()

    def finish(self) -> None:
        """Reports how the launch ended: stopped when it was asked to, else done."""
        self._reporter.start()
        complete = self._epochs is not None and self.epochs_done >= self._epochs
        self._refuse_if_fenced()
        self._reporter.end(stopped=self._stopping and not complete)

    def close(self) -> None:
        """Gives signal handlers and files back; the checkpoints stay."""
        self._signals.release()
        self._reporter.close()
        shutil.rmtree(self._store.restored_folder, ignore_errors=True)
        if self.rank == 0:
            shutil.rmtree(self.scratch_folder, ignore_errors=True)

    def _stop_wanted(self) -> bool:
        """A replaced launch stops like any other: its ranks agree, and its save() is refused.

        Raising here instead would leave the other ranks waiting.
        """
        lease = None if self._lease is None else self._lease.glance()
        return self._signals.received or (lease is not None and lease.ends(self._who.generation))

    def _refuse_if_fenced(self) -> None:
        lease = None if self._lease is None else self._lease.read()
        if lease is not None and lease.generation > self._who.generation:
            raise Fenced(self._who.generation, lease.generation, "its lease")
