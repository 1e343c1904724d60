"""Classes that other packages bring, found by entry points, imported when used.

A plug-in that cannot be imported is an error for whoever uses it, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from shockwave.model.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class PlugIn(Generic[T]):
    """A subclass of ``base`` that an installed package offers under ``point.name``."""

    point: EntryPoint
    base: type[T]

    @property
    def provider(self) -> str:
        return self.point.dist.name if self.point.dist else "an unknown package"

    def load_class(self) -> type[T]:
        """Imports it. Raises :class:`InputError` that names the package if it is broken."""
        try:
            loaded = self.point.load()
        except Exception as error:  # whatever a stranger's module raises
            raise self._broken(f"cannot be loaded: {type(error).__name__}: {error}") from error
        if not (isinstance(loaded, type) and issubclass(loaded, self.base)):
            raise self._broken(f"is not a subclass of {self.base.__module__}.{self.base.__name__}")
        return loaded

    def create(self, make: Callable[[type[T]], T] | None = None) -> T:
        """An instance of it, by ``make`` where its constructor takes arguments."""
        loaded = self.load_class()
        try:
            return make(loaded) if make else loaded()
        except Exception as error:  # whatever a stranger's class raises
            raise self._broken(f"cannot be used: {type(error).__name__}: {error}") from error

    def _broken(self, problem: str) -> InputError:
        return InputError(
            " ".join(problem.split()),
            source=f"plug-in '{self.point.name}' ({self.point.value}, from {self.provider})",
            hint=f"Repair or uninstall {self.provider}",
        )


def plug_ins(group: str, base: type[T]) -> dict[str, PlugIn[T]]:
    """The plug-ins of an entry point group by name, in order; nothing is imported yet."""
    points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    return {point.name: PlugIn(point, base) for point in points}
