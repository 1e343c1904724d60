"""Which GPUs of this machine are ours to use, and what they are called.

What the operator says comes first, then ``CUDA_VISIBLE_DEVICES`` of the scheduler itself: whoever
started it with two GPUs of eight did not mean all eight. Then what NVIDIA's library or driver
lists. Where there is nothing, slots are emulated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from shockwave.executors.local import nvidia
from shockwave.model.errors import InputError
from shockwave.protocol.environment import DEVICES

_DRIVER = "/proc/driver/nvidia/gpus"


def parsed(text: str) -> tuple[str, ...]:
    """The devices that a list names, up to the first that is none, as CUDA reads it.

    >>> parsed("2, 3"), parsed("0,-1,1"), parsed("")
    (('2', '3'), ('0',), ())
    """
    named: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if not name or name.startswith("-"):
            break
        named.append(name)
    return tuple(named)


def checked(text: str) -> tuple[str, ...]:
    """The devices that an operator names. Raises :class:`ValueError` if that makes no sense."""
    named = tuple(part.strip() for part in text.split(","))
    if not all(named) or any(name.startswith("-") for name in named):
        raise ValueError("expected GPUs by number or id, such as 2,3 or GPU-5a1f,GPU-77c0")
    if len(set(named)) != len(named):
        raise ValueError("names a GPU twice")
    return named


def named_devices(wanted: str | None, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """What somebody said which GPUs to use; None if nobody did."""
    if wanted is not None:
        return checked(wanted)
    given = environment.get(DEVICES)
    return None if given is None else parsed(given)


def usable_devices(
    wanted: str | None = None, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """The GPUs to use, as ``CUDA_VISIBLE_DEVICES`` names them; none if there are none."""
    named = named_devices(wanted, environment)
    if named is not None:
        return named
    library = nvidia.open_library()
    if library is not None:
        return tuple(str(gpu.index) for gpu in library.gpus())
    try:
        return tuple(str(number) for number in range(len(os.listdir(_DRIVER))))
    except OSError:
        return ()


def devices_of_slots(
    slots: int, wanted: str | None = None, environment: Mapping[str, str] = os.environ
) -> Sequence[str]:
    """What ``CUDA_VISIBLE_DEVICES`` is on each slot.

    Emulated slots are numbered, unless the scheduler itself was told to see no GPU. Raises
    :class:`InputError` where fewer GPUs are named than there are slots.
    """
    named = named_devices(wanted, environment)
    if named is None:
        return [str(number) for number in range(slots)]
    if not named:
        return [""] * slots
    if len(named) < slots:
        source = "local_devices" if wanted is not None else DEVICES
        raise InputError(
            f"{source} names {len(named)} of them",
            place="slots",
            value=slots,
            hint=f"Use --slots {len(named)}, or name more GPUs with --local-devices",
        )
    return named[:slots]


def types_of(devices: Sequence[str]) -> list[str]:
    """What NVIDIA's library calls each of them; empty where it does not know."""
    library = nvidia.open_library()
    gpus = [] if library is None else library.gpus()
    return [next((gpu.gpu_type for gpu in gpus if gpu.is_called(device)), "") for device in devices]


def arranged(devices: Sequence[str], types: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The devices in such an order that their ``types`` are the ``wanted`` ones.

    As they are where those are not the types that were found, but names of somebody's own.

    >>> arranged(["0", "1", "2"], ["T4", "A100", "T4"], ["A100", "T4", "T4"])
    ['1', '0', '2']
    >>> arranged(["0", "1"], ["", ""], ["A100", "T4"])
    ['0', '1']
    """
    left = list(zip(devices, types, strict=True))
    found: list[str] = []
    for gpu_type in wanted:
        match = next((pair for pair in left if pair[1] == gpu_type), None)
        if match is None:
            return list(devices)
        left.remove(match)
        found.append(match[0])
    return found
