"""Hugging Face Transformers: a callback that lets a ``Trainer`` be preempted, killed and resumed.

::

    with session(epochs=3, batch_size=16) as job:
        callbacks = [session_callback(job)]
        trainer = Trainer(model, arguments, train_dataset=data, callbacks=callbacks)
        trainer.train(resume_from_checkpoint=resume_path(job))

Whatever checkpoint the ``Trainer`` writes is also taken into the session, whole and with a
checksum. It writes one when the job is asked to stop, at the end of every epoch, and every
``save_every`` seconds; ``save_strategy="no"`` is enough, and those are not kept twice.

A job whose number of GPUs changes says the global batch, and leaves the rest to
:func:`batch_arguments`; the optimizer then sees the same batches whatever the number of ranks::

        arguments = TrainingArguments(**batch_arguments(job, 256, most_at_once=32), ...)
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shockwave.model.errors import InputError
from shockwave.train.session import SAVE_EVERY_SECONDS, Session

if TYPE_CHECKING:
    from transformers import TrainerCallback


def resume_path(session: Session) -> str | None:
    """Restores the session: ``resume_from_checkpoint`` for ``Trainer.train``, None if fresh."""
    folder = session.load()
    return str(folder) if isinstance(folder, Path) else None


def batch_arguments(
    session: Session, batch_size: int, most_at_once: int | None = None
) -> dict[str, int]:
    """For ``TrainingArguments``: this rank's steps of a global batch of ``batch_size`` samples.

    A rank has at most ``most_at_once`` samples at a time. Raises :class:`InputError` where the
    batch does not divide by the number of ranks.
    """
    share = session.share(batch_size, most_at_once).even()
    return {
        "per_device_train_batch_size": share.parts[0],
        "gradient_accumulation_steps": share.accumulation_steps,
    }


def session_callback(
    session: Session, *, save_every: float = SAVE_EVERY_SECONDS
) -> TrainerCallback:
    """The callback that connects a ``Trainer`` to ``session``.

    ``save_every`` seconds of work at most are lost when the process is killed, unless the
    session has a limit of its own. Raises :class:`InputError` where Transformers is not installed.
    """
    try:
        from transformers import (
            TrainerCallback,
            TrainerControl,
            TrainerState,
            TrainingArguments,
        )
    except ImportError as error:
        raise InputError(
            "Transformers is not installed", hint="pip install transformers accelerate"
        ) from error

    session.save_every = session.save_every or save_every

    class SessionCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
        """Asks after each step, takes checkpoints into the session, reports each epoch."""

        def __init__(self) -> None:
            self._last_loss = math.nan
            self._asked_to_save = False

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self._last_loss = float((logs or {}).get("loss", self._last_loss))

        def on_step_end(
            self,
            args: TrainingArguments,
            state: TrainerState,
            control: TrainerControl,
            **_: Any,
        ) -> TrainerControl:
            # After the last step of an epoch, the epoch is reported first.
            if not _is_whole(state.epoch):
                self._ask(control)
                if session.should_save():
                    self._save(control)
            return control

        def on_epoch_end(
            self,
            args: TrainingArguments,
            state: TrainerState,
            control: TrainerControl,
            **more: Any,
        ) -> TrainerControl:
            if not _is_whole(state.epoch):  # an interrupted epoch ends with this call too
                return control
            step = args.train_batch_size * args.world_size
            loader = more.get("train_dataloader")
            session.report(
                round(state.epoch),
                step * args.gradient_accumulation_steps,
                samples=len(loader) * step if loader is not None else 0,
                loss=self._last_loss,
            )
            self._ask(control)
            self._save(control)
            return control

        def on_save(
            self,
            args: TrainingArguments,
            state: TrainerState,
            control: TrainerControl,
            **_: Any,
        ) -> None:
            if args.world_size > 1:
                import torch.distributed as distributed

                distributed.barrier()  # every rank has written its part of the folder
            folder = Path(args.output_dir or ".") / f"checkpoint-{state.global_step}"
            # DeepSpeed leaves one file for every rank, which only as many ranks can read.
            session.save(folder, world_sizes="same" if args.deepspeed else None)
            if self._asked_to_save and session.rank == 0:
                shutil.rmtree(folder, ignore_errors=True)  # the session has it
            self._asked_to_save = False

        def _ask(self, control: TrainerControl) -> None:
            if session.should_stop():
                control.should_training_stop = True

        def _save(self, control: TrainerControl) -> None:
            # What its own plan saves at this very step is the user's to keep.
            self._asked_to_save = not control.should_save
            control.should_save = True

    return SessionCallback()


def _is_whole(epochs: float | None) -> bool:
    return epochs is not None and abs(epochs - round(epochs)) < 1e-9
