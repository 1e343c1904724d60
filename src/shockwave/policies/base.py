"""What a policy is: one class with one method, view and forecast in, decision out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.plan.explain import Explanation
from shockwave.plan.window.planner import Solver
from shockwave.predict.base import Forecast


@dataclass(frozen=True)
class Decision:
    """Which jobs run in the coming round.

    ``run`` holds positions in the view, most preferred first; together they fit the
    cluster. ``stable`` promises that the same jobs would be chosen in every later round
    until something changes, so that the loop need not ask again. A policy that plans
    also says what its plan is worth (``welfare``), how far from optimal it can be at
    most (``gap``, relative) and what a GPU-round costs in it (``price``).

    Where the view has options, ``options`` says which one each job of ``run`` gets. A running job
    that gets another one than it holds is stopped and started again. Without ``options`` every
    job gets its request: on the GPUs that it holds, else on its preferred type, else on the first
    type with room for it.
    """

    run: Ints
    stable: bool = False
    welfare: float | None = None
    gap: float | None = None
    price: float | None = None
    priority: Floats | None = None  # [job] what the order came from, larger runs first
    backfill: Bools | None = None  # [job] who may use GPUs that are left over; None: everybody
    options: Ints | None = None  # parallel to ``run``: numbers of the view's options
    explain: Callable[[], Explanation] | None = None  # called only when somebody asks
    # Of a position, why its tenant keeps the job waiting; None if it does not.
    kept_back: Callable[[int], str | None] | None = None

    @cached_property
    def explanation(self) -> Explanation | None:
        """The numbers behind the decision, where the policy can tell them."""
        return None if self.explain is None else self.explain()


@dataclass(frozen=True)
class PolicyOptions:
    """What a user may choose for policies that sample (``seed``) or solve (``solver``)."""

    seed: int = 0
    solver: Solver = "prices"


class Policy(ABC):
    """Chooses the jobs of the next round.

    ``predictor`` names the predictor that the policy is meant to be fed by; simple
    baselines assume that a job's present speed lasts (``reactive``). A policy that
    ``wants_profiles`` is shown offline profiles of every option, where a trace has them.
    """

    name: ClassVar[str]
    predictor: ClassVar[str] = "reactive"
    wants_profiles: ClassVar[bool] = False
    needs_solver: ClassVar[Literal["never", "with options", "always"]] = "never"  # highspy

    @classmethod
    def configured(cls, options: PolicyOptions) -> Self:
        """A fresh instance; policies that sample or solve override this to take the options."""
        return cls()

    @abstractmethod
    def decide(self, view: View, forecast: Forecast) -> Decision:
        """Called at the start of a round with at least one active job and one GPU."""

    def settle(self) -> None:  # noqa: B027
        """Called when a decision has been carried out: for work that no GPU has to wait for."""
