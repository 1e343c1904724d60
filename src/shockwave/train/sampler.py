"""The order of samples, which survives preemption and any number of ranks.

The order of an epoch depends on the seed and the epoch's number alone. It is cut into global
batches, each of which the ranks share, and the position is counted in samples over all ranks. So
a job that was stopped between two batches goes on with exactly the samples that are left, in the
same batches, whatever the number of ranks it had before and has now: every sample once an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from shockwave.model.errors import InputError
from shockwave.train.share import Share


@dataclass(frozen=True, slots=True)
class Batch:
    """What a rank takes at once: a global batch's share, or a part of that.

    The mean loss over it is to be multiplied with ``weight``, and after the one that ``completes``
    a global batch the gradients are averaged over ranks and the optimizer makes its step. Where
    an epoch ends with fewer samples than ranks, those that have none left get the batch's first
    sample with a weight of 0: they take part in every collective and change nothing.
    """

    samples: list[int]
    weight: float
    completes: bool
    position: int  # in the epoch, over all ranks, when the global batch is done


class ResumableSampler:
    """Hands out this rank's batches, and knows where in the epoch all ranks are.

    ``total`` is the number of samples, ``batch_size`` that of a global batch over all ranks.
    ``most_at_once`` is how many a rank can take at a time; it has the rest of its share of a
    global batch in further batches. ``drop_last`` leaves out the samples at the end of an epoch
    that make no whole global batch: they are the same ones for any number of ranks.
    """

    def __init__(
        self,
        total: int,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        most_at_once: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        self.epoch = 0
        self.weight = 1.0  # of the batch that was handed out last
        self.completes = True  # whether that one completes a global batch
        self._total = total
        self._rank = rank
        self._world_size = world_size
        self._most_at_once = most_at_once
        self._seed = seed
        self._shuffle = shuffle
        self._drop_last = drop_last
        self._samples_done = 0
        self.batch_size = self._checked(batch_size)
        if total < self._least_left():
            raise InputError(
                f"is too small for one batch of {self._least_left()} samples",
                place="dataset",
                value=total,
            )

    @property
    def samples_done(self) -> int:
        """Samples of the current epoch in global batches that were handed out, over all ranks."""
        return self._samples_done

    @property
    def share(self) -> Share:
        """This rank's share of a whole global batch."""
        return Share(self.batch_size, self._rank, self._world_size, self._most_at_once)

    @property
    def samples_per_epoch(self) -> int:
        """Over all ranks."""
        return self._total - (self._total % self.batch_size if self._drop_last else 0)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        whole, rest = divmod(self.samples_per_epoch, self.batch_size)
        return whole * self.share.accumulation_steps + (len(self._parts(rest)) if rest else 0)

    def set_batch_size(self, batch_size: int) -> None:
        """Takes effect with the next epoch. Raises :class:`InputError` inside of one."""
        self._turn_over()
        if self._samples_done and batch_size != self.batch_size:
            raise InputError(
                f"can only change between epochs, {self._samples_done} samples into this one",
                place="batch_size",
                value=batch_size,
            )
        self.batch_size = self._checked(batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of ``epoch``, unless it is the present one."""
        self._turn_over()
        if epoch != self.epoch:
            self.epoch, self._samples_done = epoch, 0

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch, or the next one after the last batch."""
        for batch in self._plan():
            self._hand_out(batch)
            yield batch
        self._turn_over()

    def state_dict(self) -> dict[str, int]:
        """The position. After the last batch of an epoch: the beginning of the next."""
        epoch, done = (self.epoch + 1, 0) if self._is_over() else (self.epoch, self._samples_done)
        return {
            "epoch": epoch,
            "samples_done": done,
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
        self.batch_size = self._checked(state["batch_size"])
        self.epoch = state["epoch"]
        self._samples_done = state["samples_done"]

    def _hand_out(self, batch: Batch) -> None:
        """A global batch counts as done when its last part was handed out."""
        self.weight, self.completes = batch.weight, batch.completes
        if batch.completes:
            self._samples_done = batch.position

    def _plan(self) -> list[Batch]:
        """This rank's batches in the rest of the epoch."""
        self._turn_over()
        order = np.arange(self._total)
        if self._shuffle:
            order = np.random.default_rng([self._seed, self.epoch]).permutation(self._total)
        planned: list[Batch] = []
        for start in range(self._samples_done, self.samples_per_epoch, self.batch_size):
            end = min(start + self.batch_size, self.samples_per_epoch)
            planned += self._shared(order[start:end].tolist(), end)
        return planned

    def _shared(self, batch: list[int], end: int) -> list[Batch]:
        """This rank's parts of a global batch that ends at the position ``end``."""
        share = Share(len(batch), self._rank, self._world_size, self._most_at_once)
        own = batch[self._rank :: self._world_size]
        found: list[Batch] = []
        for size in share.parts:
            part, own = own[:size], own[size:]
            found.append(Batch(part, share.weight(size), not own, end))
        return found or [Batch(batch[:1], 0.0, True, end)]

    def _parts(self, batch_size: int) -> tuple[int, ...]:
        share = Share(batch_size, self._rank, self._world_size, self._most_at_once)
        return share.parts or (1,)

    def _turn_over(self) -> None:
        """An epoch is over with its last batch; some frameworks never ask for one more."""
        if self._is_over():
            self.epoch += 1
            self._samples_done = 0

    def _is_over(self) -> bool:
        return self._samples_done + self._least_left() > self._total

    def _least_left(self) -> int:
        """How many samples must be left for another batch."""
        return self.batch_size if self._drop_last else 1

    def _checked(self, batch_size: int) -> int:
        Share(batch_size, self._rank, self._world_size, self._most_at_once)
        if batch_size < self._world_size:
            raise InputError(
                f"is less than one sample for each of {self._world_size} ranks",
                place="batch_size",
                value=batch_size,
                hint=f"Let the job have at most {batch_size} GPUs, or take a larger batch",
            )
        return int(batch_size)
