"""From the journal to a round loop that goes on where the last one ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields

from shockwave.engine.feed import OpenDoor
from shockwave.engine.log import Log
from shockwave.engine.loop import RoundLoop
from shockwave.engine.state import SchedulerState
from shockwave.executors.live import LiveExecutor
from shockwave.model.errors import ExecutorError, JournalError, PolicyError
from shockwave.model.events import RunStarted, SettingsChanged, TenantChanged
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.server.board import Board
from shockwave.server.clock import RealClock
from shockwave.server.config import ServeConfig
from shockwave.server.projection import Projection
from shockwave.server.snapshots import Snapshots
from shockwave.server.store import Store
from shockwave.version import __version__

logger = logging.getLogger(__name__)


class GuardedPolicy(Policy):
    """A policy whose bugs cost a round and nothing else: they become :class:`PolicyError`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name  # type: ignore[misc]
        self.predictor = policy.predictor  # type: ignore[misc]

    def decide(self, view: View, forecast: Forecast) -> Decision:
        try:
            return self._policy.decide(view, forecast)
        except Exception as error:
            raise PolicyError(
                f"{self.name} failed in round {view.round}: {type(error).__name__}: {error}"
            ) from error

    def settle(self) -> None:
        try:
            self._policy.settle()
        except Exception as error:  # the orders are out: only what comes after them is lost
            logger.error("%s failed after its decision", self.name, exc_info=error)


@dataclass(frozen=True)
class Restored:
    """The scheduler as its journal left it."""

    loop: RoundLoop
    log: Log
    board: Board
    projection: Projection
    executor: LiveExecutor


def fold(
    store: Store, snapshots: Snapshots, origin_unix: float
) -> tuple[SchedulerState, Projection]:
    """State and projection of the last event: the newest good snapshot and the events after it.

    Raises :class:`JournalError` where the journal is damaged.
    """
    last, _ = store.last_event()
    state, projection = snapshots.newest(last) or (SchedulerState(), Projection(origin_unix))
    if projection.sequence_number < store.archive.last:
        logger.warning("reading archived events: there is no newer snapshot that can be used")
    for _, event in store.events(projection.sequence_number):
        if state.run is None and not isinstance(event, RunStarted):
            raise JournalError(
                f"{store.where}: a journal begins with a run-started event, "
                f"this one with {event.kind}"
            )
        state.apply(event)
        projection.apply(event)
    return state, projection


class Recovery:
    """Makes round loops out of the journal, one at a start and one after each failure."""

    def __init__(
        self,
        config: ServeConfig,
        *,
        store: Store,
        snapshots: Snapshots,
        clock: RealClock,
        make_executor: Callable[[], LiveExecutor],
        origin_unix: float,
    ) -> None:
        self._config = config
        self._store = store
        self._snapshots = snapshots
        self._clock = clock
        self._make_executor = make_executor
        self._origin_unix = origin_unix
        self._executor: LiveExecutor | None = None

    def restore(self) -> Restored:
        """Nobody may write to the journal meanwhile.

        Raises :class:`JournalError` where the journal is damaged, and :class:`ExecutorError`
        where a journal is to begin while the backend does not answer.
        """
        self.release(stop_jobs=False)
        try:
            return self._restored()
        except BaseException:
            self.release(stop_jobs=False)
            raise

    def _restored(self) -> Restored:
        state, projection = fold(self._store, self._snapshots, self._origin_unix)
        projection.ended.clear()  # the index has them
        board = Board(projection, self._store)
        log = Log(state, board)
        self._executor = self._make_executor()
        policy = policies.create(self._config.policy, seed=self._config.seed)
        predictor = self._config.predictor or policy.predictor
        self._settle_settings(log, self._executor, predictor)
        loop = RoundLoop(
            policy=GuardedPolicy(policy),
            predictor=predictors.create(predictor),
            executor=self._executor,
            feed=OpenDoor(),
            log=log,
            clock=self._clock,
            retries=self._config.retries,
            silence=self._config.silence,
            observers=(_careful(board),),
            most_without_gpus=self._config.cpu_jobs,
        )
        loop.resume(self._clock.now())
        return Restored(loop, log, board, projection, self._executor)

    def release(self, *, stop_jobs: bool) -> None:
        """Let go of the executor; its jobs run on unless they are to be stopped."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(stop_jobs)

    def stop_running_jobs(self, loop: RoundLoop) -> None:
        """Every running job saves and gives up its GPUs; it goes on at the next start."""
        loop.stop_all(self._clock.now())
        self.release(stop_jobs=True)

    def _settle_settings(self, log: Log, executor: LiveExecutor, predictor: str) -> None:
        """The first event of a journal, or how the settings differ from those in force.

        Only for a first event the executor must know its nodes. Later the journal knows some.
        """
        config, run = self._config, log.state.run
        if run is None:
            nodes = executor.nodes()
            if nodes is None:
                raise ExecutorError(
                    f"executor {config.executor} cannot be reached: "
                    f"{executor.away() or 'it does not answer'}. A first start needs it"
                )
            log.emit(
                RunStarted(
                    0.0,
                    policy=config.policy,
                    predictor=predictor,
                    trace="live",
                    nodes=nodes,
                    round_seconds=config.round_seconds,
                    restart_seconds=config.restart_seconds,
                    seed=config.seed,
                    version=__version__,
                    started_unix=self._origin_unix,
                    starts=config.starts,
                )
            )
            self._declare_tenants(log)
            log.flush()
            return
        self._declare_tenants(log)
        wanted = SettingsChanged(
            self._clock.now(),
            policy=config.policy,
            predictor=predictor,
            round_seconds=config.round_seconds,
            restart_seconds=config.restart_seconds,
            seed=config.seed,
            version=__version__,
            starts=config.starts,
        )
        names = [field.name for field in fields(SettingsChanged) if field.name != "time"]
        if any(getattr(wanted, name) != getattr(run, name) for name in names):
            log.emit(wanted)

    def _declare_tenants(self, log: Log) -> None:
        """As the configuration has them, but for those that an operator has changed since."""
        for name, said in self._config.tenants.items():
            tenant = said.promised_to(name)
            accounts = log.state.accounts
            if accounts.tenants.get(name) != tenant and not accounts.said_by.get(name):
                log.emit(TenantChanged(self._clock.now(), tenant))


def _careful(board: Board) -> Callable[[View, Forecast, Decision], None]:
    """Telling people about a decision must never stop it from being carried out."""

    def observe(view: View, forecast: Forecast, decision: Decision) -> None:
        try:
            board.decided(view, forecast, decision)
        except Exception:
            logger.exception("a decision could not be explained")

    return observe
