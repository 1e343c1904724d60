"""Lottery ticket: the weakest neurons go in rounds, and the model is really smaller.

The job's configuration is the size of the model in percent of its neurons.

    python examples/pruning.py --epochs 30
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
from shockwave.train.adapt import LotteryTicket
from shockwave.train.adapt.torch_pruning import (
    choose_neurons,
    hidden_widths,
    parameter_count,
    prune,
    shaped_like,
)
from shockwave.train.dataloader import ResumableLoader

WIDTH = 128
PERCENTS = (100, 50, 25)
BATCH_SIZE = 64
LEARNING_RATE = 0.03


def make_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)


def train(job: Session, epochs: int, seed: int = 0, *, adapt: bool = True) -> Outcome:
    training, test = make_data(seed)
    model = make_model(seed, WIDTH)
    full_widths = hidden_widths(model)
    loader = ResumableLoader(training, BATCH_SIZE, session=job, seed=seed, collate_fn=as_it_is)
    ticket = LotteryTicket(PERCENTS, every_epochs=max(1, epochs // 4))
    saved = job.load()
    if saved is not None:
        model = shaped_like(model, saved["model"])  # it may have been pruned already
    optimizer = make_optimizer(model)
    parts = {"model": model, "optimizer": optimizer, "loader": loader, "ticket": ticket}
    restore(parts, saved)
    steps, loss = 0, torch.zeros(())
    while loader.epoch < epochs:
        decay = 0.1 if loader.epoch >= 0.7 * epochs else 1.0
        set_learning_rate(optimizer, LEARNING_RATE * decay)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            steps += 1
        if loader.stopped:
            job.save(state_of(parts))
            break
        job.report(loader.epoch, ticket.percent, len(training), loss.item())
        if adapt and ticket.at_epoch_end() is not None:
            widths = [ticket.width(width) for width in full_widths]
            model = prune(model, choose_neurons(model, widths))
            optimizer = make_optimizer(model)  # momentum of neurons that are gone is of no use
            parts |= {"model": model, "optimizer": optimizer}
            job.configure(ticket.percent)
        if job.should_stop():
            job.save(state_of(parts))
            break
    return Outcome(
        accuracy(model, test), loss.item(), job.epochs_done, steps, parameter_count(model)
    )


if __name__ == "__main__":
    given = arguments("Train a network that gets smaller", epochs=30)
    with session(epochs=given.epochs, batch_size=100) as job:
        show(train(job, given.epochs, given.seed, adapt=not given.static))
