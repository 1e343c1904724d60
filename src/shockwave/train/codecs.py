"""How a job's state becomes bytes and comes back, without ever running code from a file.

A codec is two methods. None of the codecs unpickles arbitrary objects: arrays are read with
``allow_pickle=False``, tensors with ``weights_only=True``, folders with tarfile's ``data``
filter. What could not be read back is refused when it is saved, by name.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from abc import ABC, abstractmethod
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np

from shockwave.model.errors import InputError

_ARRAY_KEY = "$array"


class Codec(ABC):
    """Writes a state to a binary stream (write only, no seeking) and reads it back."""

    name: ClassVar[str]
    """Recorded in each checkpoint, so that loading finds the codec that wrote it."""

    @abstractmethod
    def encode(self, state: Any, file: BinaryIO) -> None:
        """Raises :class:`InputError` for a state that this codec could not read back."""

    @abstractmethod
    def decode(self, file: BinaryIO) -> Any: ...


class NumpyCodec(Codec):
    """Nested dicts and lists of numbers, strings and arrays: JSON and arrays in one npz.

    Tuples come back as lists, NumPy scalars as Python numbers.
    """

    name = "numpy"

    def encode(self, state: Any, file: BinaryIO) -> None:
        arrays: list[np.ndarray[Any, Any]] = []
        tree = json.dumps(_to_tree(state, "state", arrays))
        columns = {f"a{index}": array for index, array in enumerate(arrays)}
        np.savez(
            file,
            allow_pickle=False,
            tree=np.frombuffer(tree.encode(), dtype=np.uint8),
            **cast("dict[str, Any]", columns),
        )

    def decode(self, file: BinaryIO) -> Any:
        with np.load(file, allow_pickle=False) as archive:
            tree = json.loads(archive["tree"].tobytes().decode())
            return _from_tree(tree, archive)


def _to_tree(value: Any, place: str, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise InputError("an array of objects cannot be saved", place=place)
        arrays.append(value)
        return {_ARRAY_KEY: len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_to_tree(item, f"{place}[{i}]", arrays) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == _ARRAY_KEY:
                raise InputError("keys must be strings", place=place, value=key)
        return {key: _to_tree(item, f"{place}[{key!r}]", arrays) for key, item in value.items()}
    raise InputError(
        f"a {type(value).__qualname__} cannot be saved",
        place=place,
        hint="Use dicts, lists, numbers, strings and arrays (or tensors)",
    )


def _from_tree(value: Any, archive: Any) -> Any:
    if isinstance(value, list):
        return [_from_tree(item, archive) for item in value]
    if isinstance(value, dict):
        if _ARRAY_KEY in value:
            return archive[f"a{value[_ARRAY_KEY]}"]
        return {key: _from_tree(item, archive) for key, item in value.items()}
    return value


class TorchCodec(Codec):
    """State dicts of PyTorch: nested dicts, lists and tuples of tensors and plain values.

    Tensors come back on the CPU; ``load_state_dict`` moves them where they belong.
    """

    name = "torch"

    def encode(self, state: Any, file: BinaryIO) -> None:
        import torch

        _check_loadable(state, "state", torch.Tensor)
        torch.save(state, file)

    def decode(self, file: BinaryIO) -> Any:
        import torch

        return torch.load(file, map_location="cpu", weights_only=True)


def _check_loadable(value: Any, place: str, tensor: type) -> None:
    """What ``weights_only`` would refuse to read must not be written in the first place."""
    if type(value) in (dict, OrderedDict):
        for key, item in value.items():
            if type(key) not in (str, int, float, bool):
                raise InputError("keys must be strings or numbers", place=place, value=key)
            _check_loadable(item, f"{place}[{key!r}]", tensor)
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            _check_loadable(item, f"{place}[{index}]", tensor)
    elif not (isinstance(value, tensor) or value is None or type(value) in (bool, int, float, str)):
        raise InputError(
            f"a {type(value).__qualname__} cannot be saved beside tensors",
            place=place,
            hint="Use tensors (torch.as_tensor), dicts, lists, numbers and strings",
        )


class FolderCodec(Codec):
    """A folder of files, as frameworks with checkpoints of their own write them.

    The state is a :class:`~pathlib.Path`; decoding unpacks into ``destination`` and returns
    that path.
    """

    name = "folder"

    def __init__(self, destination: Path) -> None:
        self._destination = destination

    def encode(self, state: Any, file: BinaryIO) -> None:
        if not isinstance(state, Path) or not state.is_dir():
            raise InputError("is not a folder", place="state", value=state)
        with tarfile.open(fileobj=file, mode="w|") as archive:
            archive.add(state, arcname=".")

    def decode(self, file: BinaryIO) -> Path:
        shutil.rmtree(self._destination, ignore_errors=True)  # of an earlier load
        self._destination.mkdir(parents=True)
        with tarfile.open(fileobj=file, mode="r|") as archive:
            archive.extractall(self._destination, filter="data")
        return self._destination


def codec_name_for(state: Any) -> str:
    """The codec that fits: folders for paths, torch where there is a tensor, else NumPy."""
    if isinstance(state, Path):
        return FolderCodec.name
    torch = sys.modules.get("torch")  # no tensor exists in a process that never imported it
    if torch is not None and _holds(state, torch.Tensor):
        return TorchCodec.name
    return NumpyCodec.name


def _holds(value: Any, kind: type) -> bool:
    if isinstance(value, dict):
        return any(_holds(item, kind) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(item, kind) for item in value)
    return isinstance(value, kind)
