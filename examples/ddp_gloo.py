"""Several ranks: data-parallel training over gloo, on CPU.

The gradient of one rank and the averaged one are the pair from which the noise scale is
estimated, so the batch grows without any extra work. All ranks stop at the same step.

    torchrun --nproc-per-node 2 examples/ddp_gloo.py --epochs 10
"""

from __future__ import annotations

import torch
import torch.distributed as distributed
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
from shockwave.train.adapt import GradientNoiseScale
from shockwave.train.adapt.torch_gradients import squared_norm
from shockwave.train.dataloader import ResumableLoader

FIRST, LAST = 32, 256
LEARNING_RATE = 0.02


def average_gradients(model: torch.nn.Module, ranks: int) -> tuple[float, float]:
    """Averages over ranks; the mean squared norm of one rank's gradient, and the average's."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    own = torch.tensor([squared_norm(model.parameters())])
    everything = torch.cat([own, *(gradient.ravel() for gradient in gradients)])
    if ranks > 1:
        distributed.all_reduce(everything)
    everything /= ranks
    averaged = everything[1:].split([gradient.numel() for gradient in gradients])
    for gradient, values in zip(gradients, averaged, strict=True):
        gradient.copy_(values.view_as(gradient))
    return everything[0].item(), squared_norm(model.parameters())


def train(job: Session, epochs: int, seed: int = 0, *, adapt: bool = True) -> Outcome:
    training, test = make_data(seed)
    model = make_model(seed)  # the same seed on all ranks: they begin equal and stay equal
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    ranks = job.world_size
    loader = ResumableLoader(
        training, FIRST, session=job, seed=seed, drop_last=True, collate_fn=as_it_is
    )
    noise = GradientNoiseScale(FIRST, LAST, memory_steps=200)
    parts = {"model": model, "optimizer": optimizer, "loader": loader, "noise": noise}
    restore(parts, job.load())
    steps, loss = 0, torch.zeros(())
    while loader.epoch < epochs:
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            own, averaged = average_gradients(model, ranks)
            if ranks > 1:
                noise.estimator.observe(len(labels), own, len(labels) * ranks, averaged)
            optimizer.step()
            steps += 1
        if loader.stopped:
            job.save(state_of(parts))
            break
        job.report(loader.epoch, loader.batch_size, len(training), loss.item())
        if adapt:  # every rank sees the same norms and therefore decides the same
            loader.set_batch_size(noise.at_epoch_end())
            job.configure(loader.batch_size)
        if job.should_stop():
            job.save(state_of(parts))
            break
    parameters = sum(p.numel() for p in model.parameters())
    return Outcome(accuracy(model, test), loss.item(), job.epochs_done, steps, parameters)


def main() -> None:
    given = arguments("Train with several ranks", epochs=10)
    with session(epochs=given.epochs, batch_size=FIRST) as job:
        if job.world_size > 1:
            distributed.init_process_group("gloo")
        outcome = train(job, given.epochs, given.seed, adapt=not given.static)
        if job.rank == 0:
            show(outcome)
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
