"""PyTorch Lightning: a callback that lets a ``Trainer`` be preempted, killed and resumed.

::

    with session(epochs=20, batch_size=32) as job:
        trainer = Trainer(max_epochs=20, callbacks=[session_callback(job)])
        trainer.fit(model, loader, ckpt_path=resume_path(job), weights_only=True)

With a :class:`~shockwave.train.dataloader.ResumableLoader` (made without a session, since the
callback asks) the rest of an interrupted epoch sees exactly the samples that were left. It saves
when the job is asked to stop, at the end of every epoch, and every ``save_every`` seconds.
``weights_only=True`` keeps Lightning from running code out of a checkpoint.

A job whose number of GPUs changes has one more line, and says the global batch::

        each = job.share(256, most_at_once=32).even()
        loader = ResumableLoader(data, 256, most_at_once=each.parts[0], drop_last=True,
                                 rank=job.rank, world_size=job.world_size)
        trainer = Trainer(**trainer_arguments(job, each), max_epochs=20, callbacks=[...])

The optimizer then sees the same batches whatever the number of ranks; the callback refuses a
``Trainer`` that would make others of them.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shockwave.model.errors import InputError
from shockwave.train.dataloader import ResumableLoader
from shockwave.train.session import SAVE_EVERY_SECONDS, Session
from shockwave.train.share import Share

if TYPE_CHECKING:
    from lightning.pytorch import Callback

_FILE_NAME = "lightning.ckpt"
_STEPS = "shockwave_accumulation_steps"  # of the launch that wrote a checkpoint


def resume_path(session: Session) -> str | None:
    """Restores the session: the ``ckpt_path`` for ``Trainer.fit``, None for a fresh job."""
    folder = session.load()
    return str(folder / _FILE_NAME) if isinstance(folder, Path) else None


def trainer_arguments(session: Session, share: Share) -> dict[str, Any]:
    """For a ``Trainer`` with as many processes as the session has ranks, each with one device.

    ``share`` is this rank's of the global batch, :meth:`~shockwave.train.share.Share.even`.
    """
    arguments: dict[str, Any] = {
        "accumulate_grad_batches": share.accumulation_steps,
        "use_distributed_sampler": False,
        "devices": 1,
        "num_nodes": session.world_size,
    }
    if session.world_size > 1:
        arguments |= {"strategy": "ddp", "plugins": [_environment_of(session)]}
    return arguments


def _environment_of(session: Session) -> Any:
    """Every rank sees one GPU, so each is a node of its own to Lightning."""
    from lightning.pytorch.plugins.environments import LightningEnvironment

    class RankEnvironment(LightningEnvironment):  # type: ignore[misc, unused-ignore]
        @property
        def creates_processes_externally(self) -> bool:
            return True

        @property
        def main_address(self) -> str:
            return os.environ.get("MASTER_ADDR", "127.0.0.1")

        def node_rank(self) -> int:
            return session.rank

        def local_rank(self) -> int:
            return 0

    return RankEnvironment()


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
            if isinstance(trainer.train_dataloader, ResumableLoader):
                _check(trainer.train_dataloader, trainer.accumulate_grad_batches)

        def on_train_epoch_start(self, trainer: Trainer, *_: Any) -> None:
            # Lightning drops the loader's state of a checkpoint from between two epochs.
            set_epoch = getattr(trainer.train_dataloader, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(trainer.current_epoch)

        def on_train_batch_end(
            self, trainer: Trainer, _: Any, outputs: Any, batch: Any, batch_index: int
        ) -> None:
            self._last_loss = _loss(outputs, loss_name, self._last_loss)
            # No checkpoint has gradients that wait for the rest of their batch. After the last
            # batch, the epoch is reported first.
            if trainer.is_last_batch or (batch_index + 1) % trainer.accumulate_grad_batches:
                return
            session.should_stop()
            if session.should_save():
                self._save(trainer)

        def on_train_epoch_end(self, trainer: Trainer, *_: Any) -> None:
            if session.stopping:  # Lightning ends an interrupted epoch like a whole one
                return
            batch_size, samples = _amounts(trainer)
            logged = trainer.callback_metrics.get(loss_name, self._last_loss)
            session.report(trainer.current_epoch + 1, batch_size, samples=samples, loss=logged)
            session.should_stop()
            self._save(trainer)

        def on_save_checkpoint(self, trainer: Trainer, _: Any, checkpoint: Any) -> None:
            checkpoint[_STEPS] = trainer.accumulate_grad_batches

        def on_load_checkpoint(self, trainer: Trainer, _: Any, checkpoint: Any) -> None:
            before, now = checkpoint.get(_STEPS), trainer.accumulate_grad_batches
            if before is not None and before != now:
                _count_again(checkpoint["loops"]["fit_loop"], before, now)

        def _save(self, trainer: Trainer) -> None:
            folder = session.scratch_folder
            trainer.save_checkpoint(folder / _FILE_NAME)
            # DeepSpeed leaves one file for every rank, which only as many ranks can read.
            by_rank = "DeepSpeed" in type(trainer.strategy).__name__
            session.save(folder, world_sizes="same" if by_rank else None)
            if session.rank == 0:
                shutil.rmtree(folder, ignore_errors=True)
            if session.stopping:
                trainer.fit_loop.min_epochs = None  # they hold over all launches, not for each
                trainer.fit_loop.epoch_loop.min_steps = None
                trainer.should_stop = True

    return SessionCallback()


def _amounts(trainer: Any) -> tuple[int, int]:
    """Samples of one step of the optimizer, and of an epoch, over all ranks."""
    loader = trainer.train_dataloader
    if isinstance(loader, ResumableLoader):
        return loader.batch_size, loader.samples_per_epoch
    together = int(getattr(loader, "batch_size", None) or 1) * trainer.world_size
    batches = int(trainer.num_training_batches)
    return together * trainer.accumulate_grad_batches, batches * together


def _check(loader: ResumableLoader, accumulation_steps: int) -> None:
    """Raises :class:`InputError` where Lightning would average other batches than these."""
    parts = loader.share.parts
    if len(parts) != accumulation_steps:
        raise InputError(
            f"the loader hands out a batch of {loader.batch_size} in {len(parts)} steps",
            source="Trainer",
            place="accumulate_grad_batches",
            value=accumulation_steps,
            hint=f"Use accumulate_grad_batches={len(parts)}",
        )
    if len(set(parts)) > 1 or loader.batch_size % loader.share.world_size:
        raise InputError(
            "Lightning averages steps and ranks alike, and these are of different sizes",
            source="Trainer",
            place="batch_size",
            value=loader.batch_size,
            hint="Let the number of GPUs divide it, with most_at_once of session.share().even()",
        )
    if accumulation_steps > 1 and loader.samples_per_epoch % loader.batch_size:
        raise InputError(
            "the last batch of an epoch would count for less than its samples",
            source="Trainer",
            place="drop_last",
            value=False,
            hint="Use drop_last=True",
        )


def _count_again(loop: dict[str, Any], before: int, now: int) -> None:
    """Lightning counts the batches of an epoch by accumulation steps, of which there were others.

    Between two steps of the optimizer, when a checkpoint is written, the count is a multiple.
    """
    progress = loop["epoch_loop.batch_progress"]
    for counts in (progress["current"], progress["total"]):
        for name, count in counts.items():
            counts[name] = count // before * now


def _loss(outputs: Any, name: str, otherwise: float) -> float:
    """The loss out of what a training step returned: a tensor, or a dict that has it."""
    found = outputs.get(name) if isinstance(outputs, dict) else outputs
    return otherwise if found is None else float(found.item())
