"""Accordion: small batches while the gradient changes fast, large ones elsewhere.

python examples/accordion.py --epochs 30
"""

from __future__ import annotations

import torch
from workload import (
    Outcome,
    accuracy,
    arguments,
    as_it_is,
    make_data,
    make_model,
    restore,
    set_learning_rate,
    show,
    state_of,
)

from shockwave.train import Session, session
from shockwave.train.adapt import Accordion
from shockwave.train.adapt.torch_gradients import GradientMean
from shockwave.train.dataloader import ResumableLoader

SMALL, LARGE = 32, 256
LEARNING_RATE = 0.02


def train(job: Session, epochs: int, seed: int = 0, *, adapt: bool = True) -> Outcome:
    training, test = make_data(seed)
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    loader = ResumableLoader(training, SMALL, session=job, seed=seed, collate_fn=as_it_is)
    accordion = Accordion(SMALL, LARGE, threshold=0.5)
    gradient = GradientMean(model.parameters())
    parts = {
        "model": model,
        "optimizer": optimizer,
        "loader": loader,
        "accordion": accordion,
        "gradient": gradient,
    }
    restore(parts, job.load())
    steps, loss = 0, torch.zeros(())
    while loader.epoch < epochs:
        # The schedule drops the rate once: Accordion treats that as a critical regime.
        scheduled_rate = LEARNING_RATE * (0.1 if loader.epoch >= 0.7 * epochs else 1.0)
        set_learning_rate(optimizer, scheduled_rate * accordion.learning_rate_scale)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            gradient.add()
            optimizer.step()
            steps += 1
        if loader.stopped:
            job.save(state_of(parts))
            break
        job.report(loader.epoch, loader.batch_size, len(training), loss.item())
        if adapt:
            loader.set_batch_size(accordion.at_epoch_end(gradient.norm(), scheduled_rate))
            job.configure(loader.batch_size)
        gradient.reset()
        if job.should_stop():
            job.save(state_of(parts))
            break
    parameters = sum(p.numel() for p in model.parameters())
    return Outcome(accuracy(model, test), loss.item(), job.epochs_done, steps, parameters)


if __name__ == "__main__":
    given = arguments("Train with Accordion", epochs=30)
    with session(epochs=given.epochs, batch_size=SMALL) as job:
        show(train(job, given.epochs, given.seed, adapt=not given.static))
