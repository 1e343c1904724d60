"""One rank's share of a global batch: the optimizer sees the same batch whatever the ranks.

A global batch of ``B`` samples is what one step of the optimizer learns from, over all ranks and
accumulation steps. Rank ``r`` of ``W`` takes the samples at the positions ``r, r + W, r + 2W, ...``
of it, in as many parts as it needs to have at most ``most_at_once`` samples at a time. So shares
differ by one sample at most, and so do the parts of one share.

The gradient of the whole batch's mean loss is the average over ranks, as data-parallel training
makes it, of the sum over a rank's parts of ``weight * mean loss of the part``, with ``weight = W *
samples of the part / B``. That holds whether ``B`` divides evenly or not; where it does, every
weight is one over the number of parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from shockwave.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Share:
    """What ``rank`` of ``world_size`` ranks does of a batch of ``batch_size`` samples.

    Raises :class:`InputError` where that makes no sense. A batch with fewer samples than ranks,
    which the end of an epoch can be, leaves some ranks with none: ``samples`` is 0 there.

    >>> [Share(10, rank, 4, most_at_once=2).parts for rank in range(4)]
    [(2, 1), (2, 1), (1, 1), (1, 1)]
    """

    batch_size: int
    rank: int = 0
    world_size: int = 1
    most_at_once: int | None = None  # samples that fit on a rank; None: its whole share

    def __post_init__(self) -> None:
        for name in ("batch_size", "world_size", "most_at_once"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError("must be 1 or more", place=name, value=value)
        if not 0 <= self.rank < self.world_size:
            raise InputError(f"must be below {self.world_size}", place="rank", value=self.rank)

    @property
    def samples(self) -> int:
        """Of this rank."""
        return len(range(self.rank, self.batch_size, self.world_size))

    @property
    def parts(self) -> tuple[int, ...]:
        """Samples of each accumulation step.

        All ranks have the same number of steps, unless one has fewer samples than that: then
        every step of it has one sample.
        """
        largest_share = -(-self.batch_size // self.world_size)
        steps = -(-largest_share // (self.most_at_once or largest_share))
        steps = min(steps, self.samples)
        return tuple(len(range(step, self.samples, steps)) for step in range(steps))

    @property
    def accumulation_steps(self) -> int:
        return len(self.parts)

    def weight(self, samples: int) -> float:
        """What the mean loss over ``samples`` of this rank's samples is to be multiplied with."""
        return self.world_size * samples / self.batch_size

    def even(self) -> Share:
        """The same share in steps of exactly one size, on all ranks alike.

        Frameworks that accumulate by themselves know no other. Raises :class:`InputError` where
        the batch does not divide by the number of ranks.
        """
        if self.batch_size % self.world_size:
            sizes = [n for n in range(1, self.batch_size + 1) if self.batch_size % n == 0]
            raise InputError(
                f"does not divide evenly by {self.world_size} ranks",
                place="batch_size",
                value=self.batch_size,
                hint=f"Let the job have one of {', '.join(map(str, sizes))} GPUs, "
                "or take another batch size",
            )
        share = self.samples
        least = -(-share // (self.most_at_once or share))
        steps = next(steps for steps in range(least, share + 1) if share % steps == 0)
        return Share(self.batch_size, self.rank, self.world_size, share // steps)
