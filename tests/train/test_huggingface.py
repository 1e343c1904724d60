"""A real Transformers Trainer is preempted inside an epoch and ends with the same weights."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its dependencies deprecate is not ours
    pytest.importorskip("accelerate", reason="needs accelerate")
    transformers = pytest.importorskip("transformers", reason="needs Transformers")
    from transformers import Trainer, TrainerCallback, TrainingArguments

from tests.train.helpers import FakeScheduler  # noqa: E402

from shockwave.train import Session, session  # noqa: E402
from shockwave.train.huggingface import batch_arguments, resume_path, session_callback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCHS = 3
STEPS = 6
BATCH = 4


class Samples(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.inputs = torch.randn(STEPS * BATCH, 3, generator=generator)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"inputs": self.inputs[index], "labels": self.inputs[index].sum()}


class Regression(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, inputs: Any, labels: Any) -> dict[str, Any]:
        outputs = self.layer(inputs).squeeze(1)
        return {"loss": torch.nn.functional.mse_loss(outputs, labels), "outputs": outputs}


class Act(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Does something in a given step."""

    def __init__(self, at_step: dict[int, Any]) -> None:
        self.at_step = at_step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step in self.at_step:
            self.at_step[state.global_step]()


def fit(
    job: Session,
    folder: Path,
    at_step: dict[int, Any] | None = None,
    most_at_once: int | None = None,
) -> Any:
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        **batch_arguments(job, BATCH, most_at_once),
        learning_rate=0.05,
        save_strategy="no",
        logging_strategy="steps",
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
    )
    trainer = Trainer(
        Regression(),
        arguments,
        train_dataset=Samples(),
        callbacks=[Act(at_step or {}), session_callback(job)],
    )
    trainer.train(resume_from_checkpoint=resume_path(job))
    return trainer


@pytest.mark.parametrize(
    ("how", "step"), [("signal", STEPS + 2), ("lease", 0), ("lease", 2 * STEPS - 1)]
)
def test_a_stopped_trainer_resumes_to_the_same_weights(tmp_path: Path, how: str, step: int) -> None:
    with session(tmp_path / "alone", epochs=EPOCHS, environment={}) as job:
        expected = fit(job, tmp_path / "alone-out").model.layer.weight

    scheduler = FakeScheduler(tmp_path / "job")

    def stop() -> None:
        if how == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            scheduler.lease(stop=True)

    environment = scheduler.environment()
    with session(epochs=EPOCHS, batch_size=BATCH, environment=environment) as job:
        job._lease._glance_seconds = 0.0  # type: ignore[union-attr]
        first = fit(job, tmp_path / "out", {step: stop})
    assert first.state.global_step == step + 1, "it went on training after the stop"
    whole_epochs = (step + 1) // STEPS
    saved_in_between = [] if (step + 1) % STEPS == 0 else ["saved"]
    expected_events = ["started", *["epoch", "saved"] * whole_epochs, *saved_in_between, "stopped"]
    assert scheduler.events() == expected_events
    assert not list((tmp_path / "out").glob("checkpoint-*")), "kept twice"

    scheduler.launch(2)
    environment = scheduler.environment()
    with session(epochs=EPOCHS, batch_size=BATCH, environment=environment) as job:
        second = fit(job, tmp_path / "other-out")
    assert second.state.global_step == EPOCHS * STEPS
    torch.testing.assert_close(second.model.layer.weight, expected)
    reports = scheduler.reports()
    assert (reports[0]["event"], reports[0]["epoch"]) == ("started", whole_epochs)
    epochs = [r for r in reports if r["event"] == "epoch"]
    assert [r["epoch"] for r in epochs] == list(range(whole_epochs + 1, EPOCHS + 1))
    assert all(isinstance(r["loss"], float) and r["samples"] == STEPS * BATCH for r in epochs)
    assert all(r["configuration"] == BATCH for r in epochs)
    assert reports[-1]["event"] == "done"


def test_other_accumulation_steps_go_on_with_the_same_batches(tmp_path: Path) -> None:
    """As when a job comes back with fewer GPUs, and has to take its batches in more steps."""
    with session(tmp_path / "alone", epochs=EPOCHS, environment={}) as job:
        expected = fit(job, tmp_path / "alone-out").model.layer.weight
    scheduler = FakeScheduler(tmp_path / "job")
    for most_at_once, stop_at in ((None, 2), (2, None)):

        def stop() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        environment = scheduler.environment()
        with session(epochs=EPOCHS, batch_size=BATCH, environment=environment) as job:
            at_step = {} if stop_at is None else {stop_at: stop}
            trainer = fit(job, tmp_path / "out", at_step, most_at_once)
        scheduler.launch(scheduler.generation + 1)
    assert trainer.state.global_step == EPOCHS * STEPS
    torch.testing.assert_close(trainer.model.layer.weight, expected)
    epochs = [r for g in (1, 2) for r in scheduler.reports(g) if r["event"] == "epoch"]
    assert [(r["epoch"], r["configuration"], r["samples"]) for r in epochs] == [
        (epoch, BATCH, STEPS * BATCH) for epoch in range(1, EPOCHS + 1)
    ]
