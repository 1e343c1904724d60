"""The live scheduler: the round loop in a thread, and everything it needs.

The journal is the truth, and what people ask for is part of it. At a start, and after a round
that failed, the loop is made anew from the newest snapshot and the events after it, and running
jobs are adopted.
"""

from __future__ import annotations

import logging
import threading
import time

from shockwave.executors.live import EXECUTORS
from shockwave.model.errors import PolicyError
from shockwave.server.archive import Archive
from shockwave.server.clock import Interrupted, RealClock
from shockwave.server.config import ServeConfig
from shockwave.server.couriers import Couriers
from shockwave.server.desk import Desk
from shockwave.server.execution import MakeExecutor, make_executor_of, site_of
from shockwave.server.lock import StateLock, prepare_state_dir
from shockwave.server.notifications import Notifications, Recipients, key_of
from shockwave.server.outbox import FILE as OUTBOX
from shockwave.server.outbox import Outbox
from shockwave.server.people import jobs_run_as_owners
from shockwave.server.recovery import Recovery, Restored
from shockwave.server.retention import remove_old_files
from shockwave.server.settings import DATABASE_FILE
from shockwave.server.slots import gpus_by_type
from shockwave.server.snapshots import Snapshots
from shockwave.server.store import Store

logger = logging.getLogger(__name__)

_JOIN_SECONDS = 60.0  # a round in progress gets this long at shutdown
_ARCHIVE_EVERY_SECONDS = 3600.0
_CLEAN_EVERY_SECONDS = 600.0


class Service:
    """Start it, speak to its ``desk`` from any thread, stop it. Not to be started twice."""

    def __init__(self, config: ServeConfig, *, make_executor: MakeExecutor | None = None) -> None:
        self.config = config
        self._make_executor = make_executor or make_executor_of(config)
        self._as_owner = jobs_run_as_owners(config.executor)
        self._lock = StateLock(config.state_dir)
        self._out_of_step = False  # with the journal, after a round that failed
        self._backend_away = False

    # Life.

    def claim(self) -> None:
        """Make the state directory ours. Raises :class:`InputError` if that cannot be."""
        prepare_state_dir(self.config.state_dir, others_pass=self._as_owner)
        if self.config.standby:
            self._lock.wait(lambda who: logger.warning("standing by: %s is in charge", who))
            logger.warning("in charge from now on")
        else:
            self._lock.acquire()

    def start(self) -> None:
        """Returns when the past is restored and rounds are being scheduled.

        Raises :class:`InputError` or :class:`JournalError` if that cannot be.
        """
        if not self._lock.held:
            self.claim()
        try:
            archive = Archive(self.config.state_dir / "archive")
            if self.config.database_url is None:  # SQLite would make it readable by others
                (self.config.state_dir / DATABASE_FILE).touch(mode=0o600)
            self._store = Store(self.config.database, archive)
        except BaseException:
            self._lock.release()
            raise
        try:
            self._begin()
        except BaseException:
            self._store.close()
            self._lock.release()
            raise
        self._tell_of_outage()
        self._tell_of_next_round()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._thread.start()
        self._notifications = self._notify()

    def _notify(self) -> Notifications:
        config = self.config
        given = config.notify_key
        key = key_of(config.state_dir, None if given is None else given.get_secret_value())
        notifications = Notifications(
            self.desk,
            self.desk.submission_of,
            recipients=Recipients(config.notify_users, config.notify),
            outbox=Outbox(config.state_dir / OUTBOX),
            couriers=Couriers(config, key, time.time),
            origin_unix=self.origin_unix,
            clock=time.time,
        )
        notifications.start(self._store.last_event()[0])
        return notifications

    def _begin(self) -> None:
        self.origin_unix = self._store.origin_unix(time.time())
        _, last_seconds = self._store.last_event()
        look_seconds = EXECUTORS.load(self.config.executor).look_seconds
        self._clock = RealClock(
            self.origin_unix, not_before=last_seconds, look_seconds=look_seconds
        )
        self._snapshots = Snapshots(self.config.state_dir / "snapshots", self._store)
        self._archived_at = -_ARCHIVE_EVERY_SECONDS
        self._cleaned_at = -_CLEAN_EVERY_SECONDS
        self.desk = Desk(
            executor=self.config.executor,
            slots=None if self.config.discovers_nodes else gpus_by_type(self.config.cluster.nodes),
            state_dir=self.config.state_dir,
            store=self._store,
            clock=self._clock,
            as_owner=self._as_owner,
            sends_mail=self.config.smtp is not None,
        )
        site = site_of(self.config, self.desk.command_of, self.origin_unix, self._clock)
        self._recovery = Recovery(
            self.config,
            store=self._store,
            snapshots=self._snapshots,
            clock=self._clock,
            make_executor=lambda: self._make_executor(site),
            origin_unix=self.origin_unix,
        )
        self._restore()

    def _restore(self) -> None:
        with self.desk.restoring():
            if self._out_of_step:
                self._now.log.close()
            self._now: Restored = self._recovery.restore()
            self._snapshot_at = self._now.board.sequence_number
            self.desk.attach(self._now.log, self._now.board, self._now.executor.check)

    def _run(self) -> None:
        """Rounds, until somebody interrupts the clock. Nothing else ends this thread."""
        try:
            while True:
                if self._out_of_step:
                    self._get_back_in_step()
                else:
                    self._one_step()
        except Interrupted:
            self.desk.problem = "the scheduler is shutting down"
        except BaseException:
            self.desk.problem = "the scheduler's thread has ended"
            raise

    def _one_step(self) -> None:
        try:
            self._now.loop.step()
            self._tell_of_next_round()
            self._tell_of_outage()
            self._save_state()
            self._keep_house()
        except PolicyError as error:  # nothing was ordered, so nothing has to be undone
            self._wait_for_next_round("the last decision failed", error)
        except Interrupted:
            raise
        except Exception as error:
            self._out_of_step = True
            self._wait_for_next_round("the last round failed", error)

    def _tell_of_next_round(self) -> None:
        loop = self._now.loop
        self._now.board.next_round_unix = self.origin_unix + loop.rounds.start(loop.round)

    def _tell_of_outage(self) -> None:
        """An outage is told as long as it lasts, and logged when it begins and ends."""
        away = self._now.loop.executor.away()
        if away is not None and not self._backend_away:
            logger.warning("nothing can be started or stopped for now: %s", away)
        elif away is None and self._backend_away:
            logger.warning("orders can be carried out again")
        self._backend_away = away is not None
        self.desk.problem = away
        self._now.board.set_outage(away or "")

    def _get_back_in_step(self) -> None:
        """After a failure nobody knows what was carried out, except for the journal."""
        try:
            self._restore()
            self._out_of_step = False
        except Exception as error:
            self._wait_for_next_round("the journal cannot be restored", error)

    def _wait_for_next_round(self, what: str, error: Exception) -> None:
        logger.error("%s; trying again in the next round", what, exc_info=error)
        self.desk.problem = f"{what}: {type(error).__name__}: {' '.join(str(error).split())}"
        rounds = self._now.loop.rounds
        target = rounds.start(rounds.boundary(self._clock.now()))
        while self._clock.wait_until(target) < target:
            pass

    # What survives.

    def _save_state(self, *, at_end: bool = False) -> None:
        """A snapshot every so many events; old events to the archive once in a while."""
        new_events = self._now.board.sequence_number - self._snapshot_at
        if new_events >= (1 if at_end else self.config.snapshot_events):
            with self._now.log.at_rest(), self._now.board.projection() as projection:
                self._snapshots.save(self._now.log.state, projection)
                self._snapshot_at = projection.sequence_number
            if not at_end:
                self._archive_old_events()

    def _archive_old_events(self) -> None:
        """One file at a time, because rounds wait for it; the rest follows the next snapshots."""
        seconds = self._clock.now()
        if seconds - self._archived_at >= _ARCHIVE_EVERY_SECONDS:
            before = seconds - self.config.journal_days * 86_400.0
            oldest = self._snapshots.oldest_event()
            if not self._store.archive_events(before, oldest, most_segments=1):
                self._archived_at = seconds

    def _keep_house(self) -> None:
        """Once in a while, files that are to be kept no longer."""
        seconds, days = self._clock.now(), self.config.job_files_days
        if days is not None and seconds - self._cleaned_at >= _CLEAN_EVERY_SECONDS:
            self._cleaned_at = seconds
            remove_old_files(self.config.state_dir, self._store, self.origin_unix + seconds, days)

    def stop(self, *, stop_jobs: bool | None = None) -> None:
        """End scheduling. Jobs run on, to be adopted at the next start, unless told otherwise."""
        self._notifications.stop()
        self._clock.interrupt()
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            logger.error("a round has not ended within %s s; leaving it behind", _JOIN_SECONDS)
            return
        try:
            if self.config.stop_jobs if stop_jobs is None else stop_jobs:
                self._stop_jobs()
            if not self._out_of_step:
                self._save_state(at_end=True)
        finally:
            self._recovery.release(stop_jobs=False)
            self._store.close()
            self._lock.release()

    def _stop_jobs(self) -> None:
        if self._out_of_step:
            logger.error("after a failed round it is unclear what runs; jobs were not stopped")
        else:
            self._recovery.stop_running_jobs(self._now.loop)
