"""Gradient noise scale: the batch doubles when the noise allows it.

Each batch goes through the network in two halves. The gradient of one half and that of the
whole are the pair that the estimate needs, and cost nothing extra.

    python examples/noise_scale.py --epochs 30
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
from shockwave.train.adapt import GradientNoiseScale
from shockwave.train.adapt.torch_gradients import squared_norm
from shockwave.train.dataloader import ResumableLoader

FIRST, LAST = 32, 256
LEARNING_RATE = 0.02


def train(job: Session, epochs: int, seed: int = 0, *, adapt: bool = True) -> Outcome:
    training, test = make_data(seed)
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    loader = ResumableLoader(
        training, FIRST, session=job, seed=seed, collate_fn=as_it_is, drop_last=True
    )
    noise = GradientNoiseScale(FIRST, LAST, memory_steps=200)
    parts = {"model": model, "optimizer": optimizer, "loader": loader, "noise": noise}
    restore(parts, job.load())
    steps, loss = 0, torch.zeros(())
    while loader.epoch < epochs:
        # The square root keeps the rate stable while the batch grows eightfold.
        decay = 0.1 if loader.epoch >= 0.7 * epochs else 1.0
        set_learning_rate(optimizer, LEARNING_RATE * decay * noise.learning_rate_scale**0.5)
        for inputs, labels in loader:
            optimizer.zero_grad()
            half = len(labels) // 2
            first = torch.nn.functional.cross_entropy(model(inputs[:half]), labels[:half]) / 2
            first.backward()
            half_norm = 4.0 * squared_norm(model.parameters())
            second = torch.nn.functional.cross_entropy(model(inputs[half:]), labels[half:]) / 2
            second.backward()
            noise.estimator.observe(half, half_norm, len(labels), squared_norm(model.parameters()))
            loss = (first + second).detach()
            optimizer.step()
            steps += 1
        if loader.stopped:
            job.save(state_of(parts))
            break
        job.report(loader.epoch, loader.batch_size, len(training), loss.item())
        if adapt:
            loader.set_batch_size(noise.at_epoch_end())
            job.configure(loader.batch_size)
        if job.should_stop():
            job.save(state_of(parts))
            break
    parameters = sum(p.numel() for p in model.parameters())
    return Outcome(accuracy(model, test), loss.item(), job.epochs_done, steps, parameters)


if __name__ == "__main__":
    given = arguments("Train with a batch that follows the gradient noise scale", epochs=30)
    with session(epochs=given.epochs, batch_size=FIRST) as job:
        show(train(job, given.epochs, given.seed, adapt=not given.static))
