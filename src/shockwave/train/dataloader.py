"""Batches of PyTorch in an order that survives preemption and any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from shockwave.train.sampler import ResumableSampler
from shockwave.train.session import Session

if TYPE_CHECKING:
    from torch.utils.data import Dataset


class ResumableLoader(ResumableSampler):
    """A ``torch.utils.data.DataLoader`` that can be stopped, saved and resumed between batches.

    ``batch_size`` is the global one, over all ranks, and stays when their number changes. With
    ``most_at_once``, or a batch that does not divide evenly, the loop has to look at two things::

        for inputs, labels in loader:
            with loader.accumulating(model):
                (loader.weight * loss_function(model(inputs), labels)).backward()
            if loader.completes:
                optimizer.step()
                optimizer.zero_grad()

    With a ``session`` the loader asks it between global batches and ends the epoch early when it
    is time to stop: look at :attr:`stopped` after the loop, and save :meth:`state_dict` together
    with the model. Where the loop saves by itself, it does so at the end of its body: a batch
    counts as done when it was handed out. ``options`` go to the ``DataLoader`` (``num_workers``,
    ``collate_fn``, ``pin_memory``, ...).
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        *,
        session: Session | None = None,
        most_at_once: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,
    ) -> None:
        if session is not None:
            rank = session.rank if rank is None else rank
            world_size = session.world_size if world_size is None else world_size
        super().__init__(
            len(cast("Sized", dataset)),
            batch_size,
            rank=rank or 0,
            world_size=1 if world_size is None else world_size,
            most_at_once=most_at_once,
            seed=seed,
            shuffle=shuffle,
            drop_last=drop_last,
        )
        self.dataset = dataset
        self.stopped = False
        self._session = session
        self._options = options

    def __iter__(self) -> Iterator[Any]:
        """The rest of the current epoch, or the next one after the last batch."""
        from torch.utils.data import DataLoader

        planned = self._plan()
        self.stopped, self.completes = False, False
        samples = [batch.samples for batch in planned]
        loader = DataLoader(self.dataset, batch_sampler=samples, **self._options)
        for batch, data in zip(planned, loader, strict=True):
            if self.completes and self._session is not None and self._session.should_stop():
                self.stopped = True
                return
            self._hand_out(batch)
            yield data
        self._turn_over()

    def accumulating(self, model: Any) -> AbstractContextManager[None]:
        """For the backward pass: ranks exchange gradients only where a global batch is complete.

        ``model`` is a ``DistributedDataParallel``; any other model exchanges nothing by itself.
        """
        if self.completes or not hasattr(model, "no_sync"):
            return nullcontext()
        return cast("AbstractContextManager[None]", model.no_sync())
