"""Any number of ranks: training that goes on with more GPUs, or fewer, as if nothing had happened.

The global batch is fixed. Every rank takes its share of it, in as many steps as fit on its GPU, and
the loader continues one global order of samples. So the losses are those of a run that was never
disturbed, up to the order in which numbers are summed.

    shockwave submit --gpus 1-4 --epochs 10 -- python examples/elastic_ddp.py --epochs 10

Without a scheduler:

    torchrun --nproc-per-node 1 examples/elastic_ddp.py --epochs 4
    torchrun --nproc-per-node 4 examples/elastic_ddp.py --epochs 10     # goes on with epoch 5
"""

from __future__ import annotations

import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel
from workload import (
    Outcome,
    accuracy,
    arguments,
    as_it_is,
    make_data,
    make_model,
    restore,
    show,
    state_of,
)

from shockwave.train import Session, session
from shockwave.train.dataloader import ResumableLoader

BATCH_SIZE = 90  # of the optimizer, over all ranks: 4 of them have 23, 23, 22 and 22
MOST_AT_ONCE = 32  # samples that fit on one GPU
LEARNING_RATE = 0.02


def train(job: Session, epochs: int, seed: int = 0) -> Outcome:
    training, test = make_data(seed)
    model = make_model(seed)
    replicas = DistributedDataParallel(model) if job.world_size > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    loader = ResumableLoader(
        training,
        BATCH_SIZE,
        most_at_once=MOST_AT_ONCE,
        session=job,
        seed=seed,
        collate_fn=as_it_is,
    )
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    state = job.load()
    restore(parts, state)
    summed = torch.zeros(()) if state is None else state["summed"]  # losses of the epoch so far
    steps, loss = 0, 0.0
    while loader.epoch < epochs:
        own = torch.zeros(())
        for inputs, labels in loader:
            with loader.accumulating(replicas):
                part = loader.weight * torch.nn.functional.cross_entropy(replicas(inputs), labels)
                part.backward()
            own += part.detach()
            if loader.completes:
                optimizer.step()
                optimizer.zero_grad()
                steps += 1
        summed = summed + mean_over_ranks(own, job.world_size)
        if not loader.stopped:
            loss = summed.item() / -(-len(training) // BATCH_SIZE)
            job.report(loader.epoch, BATCH_SIZE, len(training), loss)
            summed = torch.zeros(())
        job.save(state_of(parts) | {"summed": summed})
        if loader.stopped or job.should_stop():
            break
    parameters = sum(p.numel() for p in model.parameters())
    return Outcome(accuracy(model, test), loss, job.epochs_done, steps, parameters)


def mean_over_ranks(value: torch.Tensor, ranks: int) -> torch.Tensor:
    if ranks > 1:
        distributed.all_reduce(value)
    return value / ranks


def main() -> None:
    given = arguments("Train with any number of ranks", epochs=10)
    with session(epochs=given.epochs, batch_size=BATCH_SIZE) as job:
        if job.world_size > 1:
            distributed.init_process_group("gloo")
        outcome = train(job, given.epochs, given.seed)
        if job.rank == 0:
            show(outcome)
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
