"""Classes by name: those that are built in, and those that other packages bring.

A package offers a class by an entry point, or its user names it directly as
``my_package.my_module:MyClass``. Nothing is imported before it is used, and a plug-in that
cannot be imported is an error for whoever uses it, and for nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from shockwave.model.errors import InputError, ShockwaveError

T = TypeVar("T")

_OURSELVES = "shockwave-scheduler"
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Registry(Generic[T]):
    """The subclasses of ``base`` by name.

    ``kind`` is what one of them is called in messages, ``group`` the entry point group of the
    plug-ins, and ``built_in`` maps names to ``"module:Class"``. A plug-in cannot take the name
    of a built-in class.
    """

    kind: str
    group: str
    base: type[T]
    built_in: Mapping[str, str]

    def names(self) -> list[str]:
        """All names, the built-in ones first. Nothing is imported."""
        return [*self.built_in, *(name for name in self._plug_ins() if name not in self.built_in)]

    def provider(self, name: str) -> str:
        """The package that the class comes from."""
        point = self._point(name)
        if name in self.built_in:
            return _OURSELVES
        return point.dist.name if point.dist else point.module.partition(".")[0]

    def load(self, name: str) -> type[T]:
        """The class. Raises :class:`InputError` if there is none, or if it is broken."""
        point = self._point(name)
        try:
            loaded = point.load()
        except Exception as error:  # whatever a stranger's module raises
            if name in self.built_in:
                raise
            raise self._broken(point, f"cannot be loaded: {_one_line(error)}") from error
        if not (isinstance(loaded, type) and issubclass(loaded, self.base)):
            base = f"{self.base.__module__}.{self.base.__name__}"
            raise self._broken(point, f"is not a subclass of {base}")
        return loaded

    def create(self, name: str, make: Callable[[type[T]], T] | None = None) -> T:
        """An instance, by ``make`` where the constructor takes arguments."""
        loaded = self.load(name)
        try:
            return make(loaded) if make else loaded()
        except ShockwaveError:
            raise
        except Exception as error:  # whatever a stranger's class raises
            if name in self.built_in:
                raise
            raise self._broken(self._point(name), f"cannot be used: {_one_line(error)}") from error

    def _plug_ins(self) -> dict[str, EntryPoint]:
        points = sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value))
        return {point.name: point for point in points}

    def _point(self, name: str) -> EntryPoint:
        if name in self.built_in:
            return EntryPoint(name, self.built_in[name], self.group)
        if _REFERENCE.fullmatch(name):
            return EntryPoint(name, name, self.group)
        point = self._plug_ins().get(name)
        if point is None:
            raise InputError(
                f"no such {self.kind}",
                value=name,
                hint=f"There are: {', '.join(self.names())}; or name a class as my_package:MyClass",
            )
        return point

    def _broken(self, point: EntryPoint, problem: str) -> InputError:
        if point.dist is None:
            return InputError(
                problem,
                source=f"{self.kind} '{point.name}'",
                hint="A class is named as module:Class, and its module must be installed or below "
                "a folder of PYTHONPATH",
            )
        return InputError(
            problem,
            source=f"plug-in '{point.name}' ({point.value}, from {point.dist.name})",
            hint=f"Repair or uninstall {point.dist.name}",
        )


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
