"""A real Lightning Trainer is preempted inside an epoch and ends with the same weights."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Lightning's dependencies deprecate is not ours
    lightning = pytest.importorskip("lightning.pytorch", reason="needs PyTorch Lightning")

from tests.train.helpers import FakeScheduler  # noqa: E402

from shockwave.model.errors import InputError  # noqa: E402
from shockwave.train import Session, session  # noqa: E402
from shockwave.train.dataloader import ResumableLoader  # noqa: E402
from shockwave.train.lightning import (  # noqa: E402
    resume_path,
    session_callback,
    trainer_arguments,
)

pytestmark = pytest.mark.filterwarnings("ignore::Warning:lightning.*", "ignore::FutureWarning")

EPOCHS = 3
BATCHES = 6


class Regression(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """Fits a line; remembers which samples it saw and does something at a given step."""

    def __init__(self, at_step: dict[int, Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)
        self.at_step = at_step
        self.seen: list[list[float]] = []

    def training_step(self, batch: Any, _: int) -> Any:
        inputs, targets = batch
        self.seen.append(inputs[:, 0].tolist())
        action = self.at_step.get(self.global_step)
        if action is not None:
            action()
        return torch.nn.functional.mse_loss(self.layer(inputs), targets)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def fit(
    job: Session,
    folder: Path,
    at_step: dict[int, Any] | None = None,
    most_at_once: int | None = None,
) -> Regression:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(BATCHES * 4, 3, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    model = Regression(at_step or {})
    trainer = lightning.Trainer(
        **trainer_arguments(job, job.share(4, most_at_once).even()),
        max_epochs=EPOCHS,
        min_epochs=EPOCHS,  # must not keep a stopped job from stopping
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[session_callback(job)],
    )
    loader = ResumableLoader(data, 4, most_at_once=most_at_once, seed=3)
    trainer.fit(model, loader, ckpt_path=resume_path(job), weights_only=True)
    return model


@pytest.fixture
def uninterrupted(tmp_path: Path) -> Iterator[Regression]:
    with session(tmp_path / "alone", epochs=EPOCHS, environment={}) as job:
        yield fit(job, tmp_path)


@pytest.mark.parametrize("how", ["signal", "lease"])
@pytest.mark.parametrize("step", [0, 2 * BATCHES - 1, BATCHES + 2])
def test_a_stopped_trainer_resumes_to_the_same_weights(
    tmp_path: Path, uninterrupted: Regression, how: str, step: int
) -> None:
    scheduler = FakeScheduler(tmp_path / "job")

    def stop() -> None:
        if how == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            scheduler.lease(stop=True)

    environment = scheduler.environment()
    with session(epochs=EPOCHS, batch_size=4, environment=environment) as job:
        job._lease._glance_seconds = 0.0  # type: ignore[union-attr]
        first = fit(job, tmp_path, {step: stop})
        assert job.stopping
    assert len(first.seen) == step + 1, "it went on training after the stop"
    assert scheduler.events()[-1] == "stopped"
    assert scheduler.events().count("epoch") == (step + 1) // BATCHES

    scheduler.launch(2)
    with session(epochs=EPOCHS, batch_size=4, environment=scheduler.environment()) as job:
        second = fit(job, tmp_path)
    assert first.seen + second.seen == uninterrupted.seen
    torch.testing.assert_close(second.layer.weight, uninterrupted.layer.weight)
    reports = scheduler.reports()
    assert reports[0]["epoch"] == (step + 1) // BATCHES
    assert [r["epoch"] for r in reports if r["event"] == "epoch"][-1] == EPOCHS
    assert reports[-1]["event"] == "done"
    assert [r["configuration"] for r in reports if r["event"] == "epoch"] == [4] * (
        EPOCHS - (step + 1) // BATCHES
    )


def test_other_accumulation_steps_go_on_with_the_same_batches(
    tmp_path: Path, uninterrupted: Regression
) -> None:
    """As when a job comes back with fewer GPUs, and has to take its batches in more steps."""
    scheduler = FakeScheduler(tmp_path / "job")
    parts = []
    for most_at_once, stop_at in ((None, 2), (1, BATCHES + 1), (2, None)):

        def stop() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        with session(epochs=EPOCHS, batch_size=4, environment=scheduler.environment()) as job:
            at_step = {} if stop_at is None else {stop_at: stop}
            model = fit(job, tmp_path, at_step, most_at_once)
        parts += model.seen
        scheduler.launch(scheduler.generation + 1)
    assert [x for part in parts for x in part] == [x for b in uninterrupted.seen for x in b]
    torch.testing.assert_close(model.layer.weight, uninterrupted.layer.weight)
    epochs = [r for g in (1, 2, 3) for r in scheduler.reports(g) if r["event"] == "epoch"]
    assert [(r["epoch"], r["configuration"], r["samples"]) for r in epochs] == [
        (epoch, 4, BATCHES * 4) for epoch in range(1, EPOCHS + 1)
    ]


@pytest.mark.parametrize(
    ("options", "steps", "what_to_do"),
    [
        ({"most_at_once": 2}, 1, "accumulate_grad_batches=2"),
        ({"batch_size": 5, "most_at_once": 3}, 2, r"share\(\).even\(\)"),
        ({"batch_size": 10, "most_at_once": 5}, 2, "drop_last=True"),
    ],
)
def test_a_trainer_that_would_make_other_batches_is_refused(
    tmp_path: Path, options: dict[str, int], steps: int, what_to_do: str
) -> None:
    data = torch.utils.data.TensorDataset(torch.zeros(24, 3), torch.zeros(24, 1))
    loader = ResumableLoader(data, **{"batch_size": 4, **options})  # type: ignore[arg-type]
    with session(tmp_path, environment={}) as job:
        trainer = lightning.Trainer(
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accumulate_grad_batches=steps,
            callbacks=[session_callback(job)],
        )
        with pytest.raises(InputError, match=what_to_do):
            trainer.fit(Regression({}), loader)


def test_every_epoch_is_reported_with_its_loss(tmp_path: Path) -> None:
    scheduler = FakeScheduler(tmp_path / "job")
    with session(epochs=EPOCHS, environment=scheduler.environment()) as job:
        model = fit(job, tmp_path, {})
        losses = [r["loss"] for r in job.reports if r["event"] == "epoch"]
    assert len(model.seen) == EPOCHS * BATCHES
    assert len(losses) == EPOCHS
    assert all(isinstance(loss, float) for loss in losses)
