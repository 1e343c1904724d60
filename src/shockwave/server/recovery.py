"""From the journal to a round loop that goes on where the last one ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from shockwave.engine.arrivals import CancelJob, DrainNode, Request
from shockwave.engine.loop import RoundLoop
from shockwave.executors.live import LiveExecutor
from shockwave.model.cluster import Cluster
from shockwave.model.errors import ExecutorError, InputError, JournalError, PolicyError
from shockwave.model.events import (
    Event,
    JobSubmitted,
    RunStarted,
)
from shockwave.model.job import JobSpec
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.server.board import Board
from shockwave.server.clock import RealClock
from shockwave.server.config import ServeConfig
from shockwave.server.inbox import Inbox
from shockwave.server.store import Store, StoreJournal
from shockwave.server.submissions import spec_of, submission_of
from shockwave.version import __version__

logger = logging.getLogger(__name__)

_BATCH = 1_000  # events that the board takes at once


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


class Recovery:
    """Makes round loops out of the journal, one at a start and one after each failure."""

    def __init__(
        self,
        config: ServeConfig,
        *,
        store: Store,
        inbox: Inbox,
        clock: RealClock,
        make_executor: Callable[[], LiveExecutor],
        origin_unix: float,
    ) -> None:
        self._config = config
        self._store = store
        self._inbox = inbox
        self._clock = clock
        self._make_executor = make_executor
        self._origin_unix = origin_unix
        self._executor: LiveExecutor | None = None

    def restore(self) -> tuple[RoundLoop, Board]:
        """Nobody may submit or ask meanwhile.

        Raises :class:`JournalError` where the journal is damaged, :class:`InputError` where
        it does not go with the settings, and :class:`ExecutorError` where a journal is to
        begin while the engine does not answer.
        """
        self.release(stop_jobs=False)
        try:
            return self._restored()
        except BaseException:
            self.release(stop_jobs=False)
            raise

    def _restored(self) -> tuple[RoundLoop, Board]:
        board, specs = self._board_of_submissions()
        journal = StoreJournal(self._store, board.apply)
        self._executor = self._make_executor()
        started = self._run_started(journal, self._executor)
        policy = policies.create(self._config.policy, seed=self._config.seed)
        loop = RoundLoop(
            policy=GuardedPolicy(policy),
            predictor=predictors.create(self._config.predictor or policy.predictor),
            executor=self._executor,
            arrivals=self._inbox,
            cluster=Cluster(started.nodes),
            journal=journal,
            rounds=self._config.rounds,
            clock=self._clock,
            retries=self._config.retries,
            journal_progress=True,
            observers=(_careful(board),),
        )
        now = self._clock.now()
        loop.restore(self._fold(board, specs), now, self._store.drained())
        loop.intake.fit_nodes(now)
        journal.flush()
        self._ask_again(loop, specs)
        return loop, board

    def release(self, *, stop_jobs: bool) -> None:
        """Let go of the executor; its jobs run on unless they are to be stopped."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(stop_jobs)

    def stop_running_jobs(self, loop: RoundLoop) -> None:
        """Every running job saves and gives up its GPUs; it goes on at the next start."""
        loop.intake.preempt(loop.state.running(), self._clock.now())
        self.release(stop_jobs=True)

    def _board_of_submissions(self) -> tuple[Board, dict[str, tuple[JobSpec, bool]]]:
        board = Board(self._origin_unix)
        board.set_drained(self._store.drained())
        specs = {}
        for job in self._store.jobs():
            submission = submission_of(job)
            spec = spec_of(job, submission, self._origin_unix)
            board.add(job.number, spec, job.submitted_unix, cancelling=job.cancel_requested)
            specs[job.id] = (spec, job.cancel_requested)
        return board, specs

    def _run_started(self, journal: StoreJournal, executor: LiveExecutor) -> RunStarted:
        """The first event of the journal; written now if the journal is empty.

        Only then the executor must know its nodes. Later the journal knows some.
        """
        config = self._config
        first = next((event for _, event in self._store.events()), None)
        if first is None:
            nodes = executor.nodes()
            if nodes is None:
                raise ExecutorError(
                    f"executor {config.executor} cannot be reached: "
                    f"{executor.away() or 'its engine does not answer'}. A first start needs it"
                )
            policy = policies.create(config.policy, seed=config.seed)
            first = RunStarted(
                0.0,
                policy=config.policy,
                predictor=config.predictor or policy.predictor,
                trace="live",
                nodes=nodes,
                round_seconds=config.round_seconds,
                restart_seconds=config.restart_seconds,
                seed=config.seed,
                version=__version__,
                started_unix=self._origin_unix,
            )
            journal.append(first)
            journal.flush()
        if not isinstance(first, RunStarted):
            raise JournalError(
                f"{self._store.where}: a journal begins with a run-started event, "
                f"this one with {first.kind}"
            )
        if first.round_seconds != config.round_seconds:
            raise InputError(
                f"the journal of this state directory has rounds of {first.round_seconds:g} s",
                place="round_seconds",
                value=config.round_seconds,
                hint="Keep that, or begin with a new --state-dir",
            )
        return first

    def _fold(self, board: Board, specs: dict[str, tuple[JobSpec, bool]]) -> Iterator[Event]:
        """The journal for the loop, with the board looking on."""
        batch: list[Event] = []
        first = 1
        for number, event in self._store.events():
            if isinstance(event, JobSubmitted) and event.job.id not in specs:
                raise JournalError(
                    f"{self._store.where}, event {number}: job {event.job.id} was never submitted"
                )
            yield event
            batch.append(event)
            if len(batch) == _BATCH:
                board.apply(first, batch)
                first, batch = number + 1, []
        if batch:
            board.apply(first, batch)

    def _ask_again(self, loop: RoundLoop, specs: dict[str, tuple[JobSpec, bool]]) -> None:
        table = loop.state.table
        active = {table.specs[handle].id for handle in table.active.tolist()}
        new = [spec for job, (spec, _) in specs.items() if table.find(job) is None]
        expected = active | {spec.id for spec in new}
        requests: list[Request] = [
            CancelJob(job) for job, (_, cancel) in specs.items() if cancel and job in expected
        ]
        up = {node.id for node in loop.state.placer.nodes()}
        drained = self._store.drained()
        requests += [DrainNode(node) for node in sorted(drained & up)]
        self._inbox.refill(new, requests)


def _careful(board: Board) -> Callable[[View, Forecast, Decision], None]:
    """Telling people about a decision must never stop it from being carried out."""

    def observe(view: View, forecast: Forecast, decision: Decision) -> None:
        try:
            board.decided(view, forecast, decision)
        except Exception:
            logger.exception("a decision could not be explained")

    return observe
