"""PyTorch Lightning: a callback that lets a ``Trainer`` be preempted, killed and resumed.

::

    with session(epochs=20, batch_size=32) as job:
        trainer = Trainer(max_epochs=20, callbacks=[session_callback(job)])
        trainer.fit(model, loader, ckpt_path=resume_path(job), weights_only=True)

With a :class:`~shockwave.train.dataloader.ResumableLoader` (made without a session, since the
callback asks) the rest of an interrupted epoch sees exactly the samples that were left. It saves
when the job is asked to stop, at the end of every epoch, and every ``save_every`` seconds.
``weights_only=True`` keeps Lightning from running code out of a checkpoint.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shockwave.model.errors import InputError
from shockwave.train.session import SAVE_EVERY_SECONDS, Session

if TYPE_CHECKING:
    from lightning.pytorch import Callback

_FILE_NAME = "lightning.ckpt"


def resume_path(session: Session) -> str | None:
    """Restores the session: the ``ckpt_path`` for ``Trainer.fit``, None for a fresh job."""
    folder = session.load()
    return str(folder / _FILE_NAME) if isinstance(folder, Path) else None


def session_callback(
    session: Session, *, loss_name: str = "loss", save_every: float = SAVE_EVERY_SECONDS
) -> Callback:
    """The callback that connects a ``Trainer`` to ``session``.

    ``save_every`` seconds of work at most are lost when the process is killed, unless the
    session has a limit of its own. ``loss_name`` is the metric that is reported as the loss: a
    logged one, or what the training step returns. Raises :class:`InputError` where Lightning is
    not installed.
    """
    try:
        from lightning.pytorch import Callback, Trainer
    except ImportError as error:
        raise InputError(
            "PyTorch Lightning is not installed", hint="pip install lightning"
        ) from error

    session.save_every = session.save_every or save_every

    class SessionCallback(Callback):  # type: ignore[misc, unused-ignore]
        """Asks between batches, saves through the session, reports each epoch."""

        def __init__(self) -> None:
            self._last_loss = math.nan

        def on_train_start(self, trainer: Trainer, *_: Any) -> None:
            # Lightning's own handler would leave the loop between two hooks, without a save.
            session.listen()

        def on_train_epoch_start(self, trainer: Trainer, *_: Any) -> None:
            # Lightning drops the loader's state of a checkpoint from between two epochs.
            set_epoch = getattr(trainer.train_dataloader, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(trainer.current_epoch)

        def on_train_batch_end(self, trainer: Trainer, _: Any, outputs: Any, *rest: Any) -> None:
            self._last_loss = _loss(outputs, loss_name, self._last_loss)
            if not trainer.is_last_batch:  # after the last one, the epoch is reported first
                session.should_stop()
                if session.should_save():
                    self._save(trainer)

        def on_train_epoch_end(self, trainer: Trainer, *_: Any) -> None:
            if session.stopping:  # Lightning ends an interrupted epoch like a whole one
                return
            loader = trainer.train_dataloader
            batch_size = int(getattr(loader, "batch_size", None) or 1) * trainer.world_size
            logged = trainer.callback_metrics.get(loss_name, self._last_loss)
            session.report(
                trainer.current_epoch + 1,
                batch_size * trainer.accumulate_grad_batches,
                samples=int(trainer.num_training_batches) * batch_size,
                loss=logged,
            )
            session.should_stop()
            self._save(trainer)

        def _save(self, trainer: Trainer) -> None:
            folder = session.scratch_folder
            trainer.save_checkpoint(folder / _FILE_NAME)
            session.save(folder)
            if session.rank == 0:
                shutil.rmtree(folder, ignore_errors=True)
            if session.stopping:
                trainer.fit_loop.min_epochs = None  # they hold over all launches, not for each
                trainer.fit_loop.epoch_loop.min_steps = None
                trainer.should_stop = True

    return SessionCallback()


def _loss(outputs: Any, name: str, otherwise: float) -> float:
    """The loss out of what a training step returned: a tensor, or a dict that has it."""
    found = outputs.get(name) if isinstance(outputs, dict) else outputs
    return otherwise if found is None else float(found.item())
