"""What cannot be read back is refused at once; nothing is ever unpickled."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.errors import InputError
from shockwave.train.checkpoints import CheckpointStore
from shockwave.train.codecs import FolderCodec, NumpyCodec, TorchCodec, codec_name_for

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(trees)
def test_plain_values_survive(tree: Any) -> None:
    buffer = io.BytesIO()
    NumpyCodec().encode(tree, buffer)
    buffer.seek(0)
    assert NumpyCodec().decode(buffer) == tree


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": [1, {1, 2}]}, "state['a'][1]"),
        ({"a": {3: 4}}, "state['a']"),
        ({"o": np.array([object()])}, "state['o']"),
    ],
)
def test_numpy_names_what_it_cannot_save(tmp_path: Path, state: Any, place: str) -> None:
    with pytest.raises(InputError) as caught:
        CheckpointStore(tmp_path).save(state, epoch=1)
    assert caught.value.place == place
    assert list(tmp_path.iterdir()) == []


def test_tensors_survive_and_are_recognised(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "n": (1, 2.5)}
    assert codec_name_for(state) == "torch"
    store = CheckpointStore(tmp_path)
    store.save(state, epoch=1)
    latest = store.latest()
    assert latest is not None
    assert torch.equal(latest.state["model"]["weight"], model.weight)
    assert latest.state["n"] == (1, 2.5)
    optimizer.load_state_dict(latest.state["optimizer"])


def test_torch_names_what_weights_only_would_refuse() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    state = {"w": torch.zeros(1), "extra": [Path("x")]}
    with pytest.raises(InputError, match="PosixPath") as caught:
        TorchCodec().encode(state, io.BytesIO())
    assert caught.value.place == "state['extra'][0]"


class Bomb:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('the checkpoint ran code')",))


def test_loading_never_runs_code() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    buffer = io.BytesIO()
    torch.save({"x": Bomb()}, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        TorchCodec().decode(buffer)
    buffer = io.BytesIO()
    np.savez(buffer, tree=np.array([Bomb()], dtype=object))
    buffer.seek(0)
    with pytest.raises(ValueError, match="allow_pickle"):
        NumpyCodec().decode(buffer)


def test_a_folder_survives(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "weights.bin").write_bytes(b"\x00" * 70_000)
    store = CheckpointStore(tmp_path / "checkpoints")
    store.save(source, epoch=1)
    latest = store.latest()
    assert latest is not None
    assert (latest.state / "deep" / "weights.bin").read_bytes() == b"\x00" * 70_000
    with pytest.raises(InputError, match="not a folder"):
        FolderCodec(tmp_path).encode(tmp_path / "missing", io.BytesIO())
