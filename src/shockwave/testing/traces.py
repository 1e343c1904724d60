"""What every trace format must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from shockwave.model.errors import TraceError
from shockwave.traces.base import TraceFormat


class TraceFormatContract(ABC):
    """Subclass it and say how to make the format and a valid file of it."""

    @abstractmethod
    def make(self) -> TraceFormat:
        """The format."""

    @abstractmethod
    def example(self, folder: Path) -> Path:
        """Writes a valid trace with at least two jobs and returns its path."""

    def test_jobs_are_complete_and_consistent(self, tmp_path: Path) -> None:
        jobs = self.make().read(self.example(tmp_path))
        assert len(jobs) >= 2
        assert len({job.spec.id for job in jobs}) == len(jobs)
        for job in jobs:
            spec = job.spec
            assert spec.gpus >= 1
            assert spec.epochs >= 1
            assert spec.arrival_seconds >= 0
            assert len(spec.configurations) == len(spec.epoch_seconds) >= 1
            assert sum(regime.epochs for regime in job.regimes) == spec.epochs
            assert {regime.configuration for regime in job.regimes} <= set(spec.configurations)
            assert job.exclusive_seconds > 0

    def test_reads_the_same_twice(self, tmp_path: Path) -> None:
        path = self.example(tmp_path)
        assert self.make().read(path) == self.make().read(path)

    @pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe garbage", b"{"])
    def test_bad_files_are_trace_errors_that_name_the_file(
        self, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / f"bad{self._suffix()}"
        path.write_bytes(content)
        with pytest.raises(TraceError, match="bad"):
            self.make().read(path)

    def test_a_missing_file_is_a_trace_error(self, tmp_path: Path) -> None:
        with pytest.raises(TraceError, match="missing"):
            self.make().read(tmp_path / f"missing{self._suffix()}")

    def _suffix(self) -> str:
        return next(iter(self.make().suffixes), "")
