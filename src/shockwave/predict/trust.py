"""How far each way of answering has been off, by kind of job, and what weight that gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shockwave.model.view import Floats, Ints, View

ANSWERS = SPLIT, STAY, RELATIVE, ABSOLUTE = range(4)

# Errors before anything was learned, as a share of the exclusive runtime: typical of the
# generated and the published workloads alike. Before its first change a job is anybody's
# guess; after it, jobs tend to stay where they are.
_PRIOR_ERRORS = np.array([[0.1, 0.1, 0.05, 0.05], [0.05, 0.025, 0.02, 0.02]])
_PRIOR_COUNT = 10.0  # replays that the prior, and then the adaptation, count for
_FLOOR = 0.003  # errors below this are as good as none
_POWER = 2.0


@dataclass
class Trust:
    """Sums of relative errors by kind and by adaptation: ``[changed, answer, (sum, count)]``."""

    _kinds: dict[int, Floats] = field(default_factory=dict)
    _adaptations: dict[int, Floats] = field(default_factory=dict)

    def observe(self, kind: int, adaptation: int, changed: Ints, errors: Floats) -> None:
        """Take in ``errors[answer, replay]``, nan where an answer had nothing to say."""
        for table in (self._table(self._kinds, kind), self._table(self._adaptations, adaptation)):
            for state in (0, 1):
                inside = errors[:, changed == state]
                known = ~np.isnan(inside)
                table[state, :, 0] += np.where(known, inside, 0.0).sum(axis=1)
                table[state, :, 1] += known.sum(axis=1)

    def weights(self, view: View, changed: Ints) -> Floats:
        """[job, answer] weights, not normalised."""
        if not len(view):
            return np.zeros((0, 4))
        number, kinds = numbered([view.kind, view.adaptation])
        tables = np.stack([self._errors(kind, code) for kind, code in kinds]) ** -_POWER
        return np.asarray(tables[number, changed])

    def _errors(self, kind: int, adaptation: int) -> Floats:
        """[changed, answer] mean errors, shrunk to the adaptation's and those to the prior."""
        errors = _PRIOR_ERRORS
        for table in (self._adaptations.get(adaptation), self._kinds.get(kind)):
            if table is not None:
                errors = (table[:, :, 0] + _PRIOR_COUNT * errors) / (table[:, :, 1] + _PRIOR_COUNT)
        return np.asarray(np.maximum(errors, _FLOOR))

    @staticmethod
    def _table(tables: dict[int, Floats], key: int) -> Floats:
        return tables.setdefault(key, np.zeros((2, 4, 2)))


def numbered(columns: list[Ints]) -> tuple[Ints, list[list[int]]]:
    """Number the distinct rows of the columns: [row] its number, and the rows by number."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = code * (int(column.max()) + 1) + column
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    return number.reshape(-1), np.stack(columns, axis=1)[first].tolist()
