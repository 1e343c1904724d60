"""A job loses at most the work since its last save, whatever happens to process and disk."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.train.helpers import finish, start

from shockwave.model.errors import InputError
from shockwave.protocol.paths import CheckpointName
from shockwave.train.checkpoints import CheckpointStore, WorldSizes
from shockwave.train.codecs import Codec, NumpyCodec
from shockwave.train.errors import CheckpointError, Fenced


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_state_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "new" / "folder")
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    state = {"weights": [weights, np.int64(3)], "name": "a", "rate": 0.1, "none": None}
    path = store.save(state, epoch=4, facts={"configuration": 32})
    assert path.name == "ckpt-g1-e4-1.ckpt"
    latest = store.latest()
    assert latest is not None
    assert (latest.path, latest.epoch, latest.facts) == (path, 4, {"configuration": 32})
    back = latest.state
    assert back["weights"][0].dtype == np.float32
    assert np.array_equal(back["weights"][0], weights)
    assert (back["weights"][1], back["name"], back["rate"], back["none"]) == (3, "a", 0.1, None)


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "missing").latest() is None


def test_the_last_two_are_kept_and_left_overs_removed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, generation=3)
    (tmp_path / ".ckpt-g2-e1-1.ckpt.99.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".restored-g2-99").mkdir()
    (tmp_path / ".scratch-g2").mkdir()
    for epoch in range(1, 13):
        store.save({"epoch": epoch}, epoch=epoch)
    assert names(tmp_path) == ["ckpt-g3-e11-11.ckpt", "ckpt-g3-e12-12.ckpt", "notes.txt"]


def test_a_damaged_one_does_not_count_as_one_of_the_two(tmp_path: Path) -> None:
    for epoch in (1, 2):
        CheckpointStore(tmp_path).save({"epoch": epoch}, epoch=epoch)
    damage(tmp_path / "ckpt-g1-e2-2.ckpt", 0)
    CheckpointStore(tmp_path).save({"epoch": 3}, epoch=3)
    assert "ckpt-g1-e1-1.ckpt" in names(tmp_path)


def test_the_highest_generation_wins_then_the_newest(tmp_path: Path) -> None:
    CheckpointStore(tmp_path, generation=2, keep=9).save({"from": "g2"}, epoch=9)
    newer = CheckpointStore(tmp_path, generation=10, keep=9)
    for epoch in range(1, 12):
        newer.save({"from": f"g10-{epoch}"}, epoch=epoch)
    latest = CheckpointStore(tmp_path, generation=11).latest()
    assert latest is not None
    assert latest.state == {"from": "g10-11"}


def test_an_older_generation_is_refused(tmp_path: Path) -> None:
    old = CheckpointStore(tmp_path, generation=1)
    old.save({"n": 1}, epoch=1)
    CheckpointStore(tmp_path, generation=2).save({"n": 2}, epoch=2)
    before = names(tmp_path)
    with pytest.raises(Fenced, match=r"generation 1 .* replaced by generation 2"):
        old.save({"n": 3}, epoch=3)
    assert names(tmp_path) == before


def test_a_launch_that_is_replaced_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    calls = []

    def fence() -> None:
        calls.append(1)
        if len(calls) == 2:  # the first look was before the bytes were written
            raise Fenced(1, 2, "lease.json")

    with pytest.raises(Fenced):
        CheckpointStore(tmp_path, generation=1, fence=fence).save({"n": 1}, epoch=1)
    assert names(tmp_path) == []


def damage(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(content)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    store = CheckpointStore(folder)
    store.save({"n": np.arange(5)}, epoch=1)
    path = store.save({"n": np.arange(9)}, epoch=2)
    damage(path, data.draw(st.integers(0, 8 * path.stat().st_size - 1), label="bit"))
    latest = store.latest()
    assert latest is not None
    assert latest.epoch == 1
    assert np.array_equal(latest.state["n"], np.arange(5))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_cut_short_anywhere_is_passed_over(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    store = CheckpointStore(folder)
    store.save({"n": 1}, epoch=1)
    path = store.save({"n": 2}, epoch=2)
    size = data.draw(st.integers(0, path.stat().st_size - 1), label="size")
    os.truncate(path, size)
    latest = store.latest()
    assert latest is not None
    assert latest.state == {"n": 1}


def test_passing_over_is_logged_with_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path)
    path = store.save({"n": 1}, epoch=1)
    damage(path, 100)
    with caplog.at_level(logging.WARNING):
        assert store.latest() is None
    assert str(path) in caplog.text
    assert "checksum" in caplog.text


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_writer.py")
    out = finish(start([str(script), str(tmp_path), "60"], {}))
    assert out.startswith("60 kills")


class FullDiskCodec(NumpyCodec):
    """Writes something, then finds the disk full."""

    def encode(self, state: Any, file: BinaryIO) -> None:
        file.write(b"some bytes that still fit")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_old_ones_and_says_so(tmp_path: Path) -> None:
    CheckpointStore(tmp_path).save({"n": 1}, epoch=1)
    before = names(tmp_path)
    with pytest.raises(CheckpointError, match="No space left on device") as caught:
        CheckpointStore(tmp_path, codec=FullDiskCodec()).save({"n": 2}, epoch=2)
    assert "intact" in str(caught.value)
    assert names(tmp_path) == before


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Any:
    """A file system of 256 kB, where this process may mount one."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_really_full_disk(tiny_disk: Path, framework: str) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch") if framework == "torch" else None

    def state(values: int) -> dict[str, Any]:
        return {"w": torch.zeros(values) if torch else np.zeros(values, dtype=np.float32)}

    store = CheckpointStore(tiny_disk)
    store.save(state(10_000), epoch=1)
    store.save(state(10_000), epoch=2)
    before = names(tiny_disk)
    with pytest.raises(CheckpointError, match="No space left on device"):
        store.save(state(60_000), epoch=3)
    assert names(tiny_disk) == before
    latest = store.latest()
    assert latest is not None
    assert latest.epoch == 2
    store.save(state(10_000), epoch=3)  # there is room again: nothing was left behind


class NoReader(Codec):
    name = "foreign"

    def encode(self, state: Any, file: BinaryIO) -> None:
        file.write(b"x")

    def decode(self, file: BinaryIO) -> Any:
        raise ValueError("bad")


def test_a_whole_file_that_cannot_be_decoded_is_an_error_not_a_restart(tmp_path: Path) -> None:
    CheckpointStore(tmp_path, codec=NoReader()).save({}, epoch=1)
    with pytest.raises(CheckpointError, match="codec 'foreign'"):
        CheckpointStore(tmp_path).latest()
    with pytest.raises(CheckpointError, match="cannot read it: bad"):
        CheckpointStore(tmp_path, codec=NoReader()).latest()


def test_file_names_order_by_number_not_by_text() -> None:
    parsed = [CheckpointName.parse(f"ckpt-g1-e{n}-{n}.ckpt") for n in (9, 10, 2)]
    assert [str(name) for name in sorted(filter(None, parsed))] == [
        "ckpt-g1-e2-2.ckpt",
        "ckpt-g1-e9-9.ckpt",
        "ckpt-g1-e10-10.ckpt",
    ]
    assert CheckpointName.parse("ckpt-g1-e1-1.ckpt.tmp") is None


def test_keep_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="keep"):
        CheckpointStore(tmp_path, keep=0)


@pytest.mark.parametrize(
    ("world_sizes", "loads"), [("any", {1, 2, 4}), ("same", {4}), ([2, 4, 8], {2, 4})]
)
def test_only_these_numbers_of_ranks_can_load_it(
    tmp_path: Path, world_sizes: WorldSizes, loads: set[int]
) -> None:
    CheckpointStore(tmp_path, world_size=4, world_sizes=world_sizes).save({"w": 1}, epoch=3)
    for ranks in (1, 2, 4):
        store = CheckpointStore(tmp_path, world_size=ranks)
        if ranks in loads:
            found = store.latest()
            assert found is not None
            assert found.state == {"w": 1}
        else:
            with pytest.raises(CheckpointError) as refused:
                store.latest()
            assert f"saved by 4 ranks and can be loaded by {min(loads)}" in str(refused.value)
            assert f"this launch has {ranks}" in str(refused.value)
            assert f"gpus: {min(loads)}" in str(refused.value), "what to do"


def test_one_save_may_be_for_others_than_the_rest(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, world_size=2)
    store.save({"w": 1}, epoch=1, world_sizes="same")
    with pytest.raises(CheckpointError, match="saved by 2 ranks"):
        CheckpointStore(tmp_path).latest()
    store.save({"w": 2}, epoch=2)
    assert CheckpointStore(tmp_path).latest() is not None
    wrong: Any
    for wrong in ("all", [], [0], ["2"]):
        with pytest.raises(InputError, match="world_sizes"):
            CheckpointStore(tmp_path, world_sizes=wrong)
