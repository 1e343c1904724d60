"""Checkpoints that are there whole or not at all, whatever happens to the process.

A file is written under a temporary name, reaches the disk, is renamed, and the folder reaches
the disk: a process killed at any moment leaves the older checkpoints untouched. Damaged files
are detected by their checksum and passed over. A launch that was replaced by a newer one is
refused (:class:`~shockwave.train.errors.Fenced`), and so is one with a number of ranks that
cannot load the newest checkpoint.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from shockwave.model.errors import InputError
from shockwave.model.words import count_of
from shockwave.protocol.files import atomic_bytes
from shockwave.protocol.paths import CheckpointName, checkpoints_in
from shockwave.train.codecs import Codec, FolderCodec, NumpyCodec, TorchCodec, codec_name_for
from shockwave.train.container import Contents, Damaged, HashingWriter, open_payload, verify
from shockwave.train.errors import CheckpointError, Fenced

logger = logging.getLogger(__name__)

_TEMPORARY = re.compile(r"\.ckpt-g(\d+)-.*\.tmp")
_WORKING_FOLDER = re.compile(r"\.(?:restored|scratch)-g(\d+)")
_LISTING_ATTEMPTS = 5

# The numbers of ranks that can load a checkpoint; "same": those that saved it.
WorldSizes = Literal["any", "same"] | Collection[int]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state that was read back, and the facts that were saved beside it."""

    path: Path
    generation: int
    epoch: int
    facts: Mapping[str, Any]
    state: Any


class CheckpointStore:
    """The checkpoints of one job in one folder, as seen by one launch of it.

    ``generation`` None means that nobody else launches this job: the store then continues with
    the newest generation it finds. ``world_size`` is how many ranks the launch has, and
    ``world_sizes`` are the numbers of ranks that can load what it saves. ``fence`` is called before
    anything is written and again right before it takes effect; it raises :class:`Fenced` if this
    launch was replaced.
    """

    def __init__(
        self,
        folder: Path,
        *,
        generation: int | None = None,
        codec: Codec | None = None,
        keep: int = 2,
        world_size: int = 1,
        world_sizes: WorldSizes = "any",
        fence: Callable[[], None] | None = None,
    ) -> None:
        if keep < 1:
            raise InputError("at least one checkpoint must be kept", place="keep", value=keep)
        self.folder = folder
        names = self._names()
        newest = names[0].generation if names else 1
        self.generation = newest if generation is None else generation
        self._codec = codec
        self._keep = keep
        self._world_size = world_size
        self._world_sizes = _listed(world_sizes, world_size)
        self._fence = fence or (lambda: None)
        self._known_whole: set[CheckpointName] = set()
        given: Iterable[Codec] = () if codec is None else (codec,)
        restored = folder / f".restored-g{self.generation}-{os.getpid()}"
        standard = (NumpyCodec(), TorchCodec(), FolderCodec(restored))
        self._codecs: dict[str, Codec] = {known.name: known for known in (*standard, *given)}
        self.restored_folder = restored
        self.scratch_folder = folder / f".scratch-g{self.generation}"

    def save(
        self,
        state: Any,
        *,
        epoch: int,
        facts: Mapping[str, object] | None = None,
        world_sizes: WorldSizes | None = None,
    ) -> Path:
        """Writes a checkpoint and returns its path; then removes what is no longer needed.

        ``world_sizes`` holds for this one, in place of the store's. Raises :class:`Fenced` if
        this launch was replaced, :class:`InputError` for a state that could not be read back, and
        :class:`CheckpointError` if the disk refuses. The older checkpoints are intact in all
        three cases.
        """
        self._refuse_if_replaced()
        codec = self._codec or self._codecs[codec_name_for(state)]
        sizes = self._world_sizes
        if world_sizes is not None:
            sizes = _listed(world_sizes, self._world_size)
        about = {
            "codec": codec.name,
            "epoch": epoch,
            "facts": dict(facts or {}),
            "world_size": self._world_size,
            "world_sizes": sizes,
        }
        names = self._names()
        own = [name.number for name in names if name.generation == self.generation]
        name = CheckpointName(self.generation, max(own, default=0) + 1, epoch)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / str(name)
            with atomic_bytes(path, check=self._refuse_if_replaced) as file:
                _encode(file, codec, state, about)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self.folder / str(name)} could not be written: {error.strerror}. "
                "The older checkpoints are intact; free some space or choose another folder"
            ) from error
        self._known_whole.add(name)
        self._remove_old()
        return self.folder / str(name)

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, of the highest generation; None without one.

        Damaged ones are passed over with a warning. Raises :class:`CheckpointError` for a
        whole one that cannot be decoded, or not by this number of ranks: an older one would not
        be any better.
        """
        for _ in range(_LISTING_ATTEMPTS):
            try:
                return self._latest()
            except FileNotFoundError:
                continue  # the launch before this one was still cleaning up: look again
        raise CheckpointError(f"the checkpoints in {self.folder} vanish while they are read")

    def _latest(self) -> Checkpoint | None:
        for name in self._names():
            contents = self._whole(name)
            if contents is None:
                continue
            path = self.folder / str(name)
            self._refuse_if_unloadable(path, contents.about)
            state = self._decode(path, contents)
            return Checkpoint(path, name.generation, name.epoch, contents.about["facts"], state)
        return None

    def _refuse_if_unloadable(self, path: Path, about: Mapping[str, Any]) -> None:
        sizes = about.get("world_sizes")  # older checkpoints are of those that any number can load
        if sizes is None or self._world_size in sizes:
            return
        counts = " or ".join(map(str, sizes))
        raise CheckpointError(
            f"{path} was saved by {count_of(about['world_size'], 'rank')} and can be loaded by "
            f"{counts} only, but this launch has {self._world_size}. Let the job have {counts} "
            f"GPUs (gpus: {sizes[0]}), or save a state that any number of ranks can load: "
            'collected on rank 0, with world_sizes="any"'
        )

    def _decode(self, path: Path, contents: Contents) -> Any:
        codec = self._codecs.get(contents.about["codec"])
        if codec is None:
            raise CheckpointError(
                f"{path} was written by the codec {contents.about['codec']!r}: pass it as codec="
            )
        try:
            with open_payload(path, contents) as payload:
                return codec.decode(payload)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"{path} is whole, but the codec {codec.name!r} cannot read it: {error}"
            ) from error

    def _whole(self, name: CheckpointName) -> Contents | None:
        path = self.folder / str(name)
        try:
            return verify(path)
        except FileNotFoundError:
            raise
        except (Damaged, OSError) as error:
            logger.warning("checkpoint %s is damaged and passed over: %s", path, error)
            return None

    def _names(self) -> list[CheckpointName]:
        """Newest first."""
        return checkpoints_in(self.folder)

    def _refuse_if_replaced(self) -> None:
        self._fence()
        names = self._names()
        if names and names[0].generation > self.generation:
            raise Fenced(self.generation, names[0].generation, str(self.folder / str(names[0])))

    def _remove_old(self) -> None:
        """Keeps the newest whole ones; what is damaged does not count."""
        kept = 0
        for name in self._names():
            if name.generation > self.generation:
                return  # a newer launch cleans up for itself
            if kept >= self._keep:
                with suppress(OSError):
                    (self.folder / str(name)).unlink()
            elif self._is_known_whole(name):
                kept += 1
        for entry in os.listdir(self.folder):
            left_over = _TEMPORARY.fullmatch(entry)
            if left_over is not None and int(left_over[1]) <= self.generation:
                with suppress(OSError):
                    (self.folder / entry).unlink()
            abandoned = _WORKING_FOLDER.match(entry)
            if abandoned is not None and int(abandoned[1]) < self.generation:
                shutil.rmtree(self.folder / entry, ignore_errors=True)

    def _is_known_whole(self, name: CheckpointName) -> bool:
        if name in self._known_whole:
            return True
        with suppress(FileNotFoundError):
            if self._whole(name) is not None:
                self._known_whole.add(name)
        return name in self._known_whole


def _listed(world_sizes: WorldSizes, own: int) -> list[int] | None:
    """As it is written into a checkpoint; None for any."""
    if world_sizes == "any":
        return None
    sizes = [own] if world_sizes == "same" else list(world_sizes)
    if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise InputError(
            'must be "any", "same" or numbers of ranks', place="world_sizes", value=world_sizes
        )
    return sorted(sizes)


def _encode(file: BinaryIO, codec: Codec, state: Any, about: Mapping[str, object]) -> None:
    writer = HashingWriter(file)
    try:
        codec.encode(state, cast("BinaryIO", writer))
    except Exception:
        if writer.failure is not None:
            raise writer.failure from None  # native code hides what the disk said
        raise
    writer.finish(about)
