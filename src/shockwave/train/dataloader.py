"""Batches in an order that survives preemption.

The order of an epoch depends on the seed and the epoch's number alone, and the position is
counted in samples over all ranks. So a job that was stopped in the middle of an epoch goes on
with exactly the samples that are left, even with another number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shockwave.model.errors import InputError
from shockwave.train.session import Session

if TYPE_CHECKING:
    from torch.utils.data import Dataset


class ResumableLoader:
    """A ``torch.utils.data.DataLoader`` that can be stopped, saved and resumed between batches.

    ``batch_size`` is that of one rank. With a ``session`` the loader asks it between batches
    and ends the epoch early when it is time to stop: look at :attr:`stopped` after the loop,
    and save :meth:`state_dict` together with the model. Where the loop saves by itself, it does
    so at the end of its body: a batch counts as done when it was handed out. ``options`` go to
    the ``DataLoader`` (``num_workers``, ``collate_fn``, ``pin_memory``, ...).
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        *,
        session: Session | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,
    ) -> None:
        self.dataset = dataset
        self.batch_size = _positive(batch_size)
        self.epoch = 0
        self.stopped = False
        self._session = session
        self._seed = seed
        self._shuffle = shuffle
        self._drop_last = drop_last
        self._rank = rank if rank is not None else session.rank if session else 0
        self._world_size = (
            world_size if world_size is not None else session.world_size if session else 1
        )
        self._options = options
        self._samples_done = 0
        self._total = len(cast("Sized", dataset))
        # Every rank must make the same number of steps: what does not divide is left out.
        self._samples = self._total - self._total % self._world_size
        if self._samples < max(1, self._least_batch()):
            raise InputError(
                f"is too small for one step of {self._world_size} ranks",
                place="dataset",
                value=self._total,
            )

    @property
    def samples_done(self) -> int:
        """Samples of the current epoch that were handed out, over all ranks."""
        return self._samples_done

    def __len__(self) -> int:
        """Batches in a whole epoch at the current batch size."""
        step = self.batch_size * self._world_size
        return self._samples // step if self._drop_last else -(-self._samples // step)

    def set_batch_size(self, batch_size: int) -> None:
        """Takes effect with the next epoch. Raises :class:`InputError` inside of one."""
        self._turn_over()
        if self._samples_done and batch_size != self.batch_size:
            raise InputError(
                f"can only change between epochs, {self._samples_done} samples into this one",
                place="batch_size",
                value=batch_size,
            )
        self.batch_size = _positive(batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of ``epoch``, unless the loader is in it already."""
        self._turn_over()
        if epoch != self.epoch:
            self.epoch, self._samples_done = epoch, 0

    def __iter__(self) -> Iterator[Any]:
        """The rest of the current epoch, or the next one after the last batch."""
        from torch.utils.data import DataLoader

        self._turn_over()
        self.stopped = False
        batches, ends = self._plan()
        loader = DataLoader(self.dataset, batch_sampler=batches, **self._options)
        for number, batch in enumerate(loader):
            if number and self._session is not None and self._session.should_stop():
                self.stopped = True
                return
            self._samples_done = ends[number]
            yield batch
        self._turn_over()

    def _turn_over(self) -> None:
        """An epoch is over with its last batch; some frameworks never ask for one more."""
        if self._samples_done + self._least_batch() > self._samples:
            self.epoch += 1
            self._samples_done = 0

    def _least_batch(self) -> int:
        """How many samples must be left for another batch."""
        return self.batch_size * self._world_size if self._drop_last else 1

    def _plan(self) -> tuple[list[list[int]], list[int]]:
        """This rank's batches to come, and the position after each of them."""
        order = np.arange(self._total)
        if self._shuffle:
            order = np.random.default_rng([self._seed, self.epoch]).permutation(self._total)
        order = order[: self._samples]
        step = self.batch_size * self._world_size
        batches: list[list[int]] = []
        ends: list[int] = []
        for start in range(self._samples_done, self._samples, step):
            end = min(start + step, self._samples)
            if end - start < self._least_batch():
                break
            batches.append(order[start + self._rank : end : self._world_size].tolist())
            ends.append(end)
        return batches, ends

    def state_dict(self) -> dict[str, int]:
        """The position. After the last batch of an epoch: the beginning of the next."""
        if self._samples_done + self._least_batch() > self._samples:
            return self._state(self.epoch + 1, 0)
        return self._state(self.epoch, self._samples_done)

    def _state(self, epoch: int, samples_done: int) -> dict[str, int]:
        return {
            "epoch": epoch,
            "samples_done": samples_done,
            "batch_size": self.batch_size,
            "seed": self._seed,
        }

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on where ``state`` was taken. Raises :class:`InputError` for another seed."""
        if state["seed"] != self._seed:
            raise InputError(
                f"the saved order was made with seed {state['seed']}",
                place="seed",
                value=self._seed,
                hint="Use the same seed, or the position means nothing",
            )
        self.epoch = state["epoch"]
        self._samples_done = state["samples_done"]
        self.batch_size = _positive(state["batch_size"])


def _positive(batch_size: int) -> int:
    if batch_size < 1:
        raise InputError("must be 1 or more", place="batch_size", value=batch_size)
    return int(batch_size)
