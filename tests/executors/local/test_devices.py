"""Which GPUs of the machine are used, and that those of others are left alone."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from tests.executors.local import harness
from tests.executors.local.fake_pynvml import FakeGpu, fake_pynvml

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.live import Site
from shockwave.executors.local.devices import devices_of_slots, usable_devices
from shockwave.executors.local.executor import LocalExecutor
from shockwave.executors.local.nvidia import Library, open_library
from shockwave.executors.local.options import LocalSite
from shockwave.executors.local.others import LOOK_SECONDS
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import NodeOccupied
from shockwave.server.settings import ServeConfig

DUMP = """
import json, os
path = os.environ["SHOCKWAVE_DIR"] + "/env.json"
with open(path + ".new", "w") as file:
    json.dump(dict(os.environ), file)
os.rename(path + ".new", path)
"""
WAIT = "import time; time.sleep(600)"


def install(monkeypatch: pytest.MonkeyPatch, gpus: list[FakeGpu], *, driver: bool = True) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml(gpus, driver=driver))


def test_what_is_said_beats_the_environment_and_that_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, [FakeGpu("A100")] * 4)
    assert usable_devices("2,3", {"CUDA_VISIBLE_DEVICES": "0"}) == ("2", "3")
    assert usable_devices(None, {"CUDA_VISIBLE_DEVICES": "1,GPU-0003"}) == ("1", "GPU-0003")
    assert usable_devices(None, {}) == ("0", "1", "2", "3")


@pytest.mark.parametrize("wrong", ["", "2,", "2,2", "-1", "1,,3"])
def test_devices_that_make_no_sense_are_refused(wrong: str) -> None:
    with pytest.raises(ValidationError):
        LocalSite(devices=wrong)


def test_slots_are_as_many_as_there_are_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert ServeConfig().slots == 3
    chosen = ServeConfig.model_validate({"site_options": {"devices": "2,3"}})
    assert chosen.slots == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert ServeConfig().slots == 1  # emulated


def test_gpus_of_several_kinds_are_a_node_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    names = ("Tesla T4", "NVIDIA A100-SXM4-80GB", "Tesla T4")
    install(monkeypatch, [FakeGpu(name) for name in names])
    nodes = ServeConfig().cluster.nodes
    assert nodes == (Node("n0", 2, "T4"), Node("n1", 1, "A100-SXM4-80GB"))
    site = Site(tmp_path, nodes, lambda _: Command(("true",), str(tmp_path)), 0.0, time.time, 5.0)
    executor = LocalExecutor.at(site)
    try:
        seen = [executor._slots.device(*place) for place in (("n0", 0), ("n0", 1), ("n1", 0))]
        assert seen == ["0", "2", "1"]
    finally:
        executor.shutdown(stop_jobs=True)


def test_kinds_can_be_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated = ServeConfig(slots="A100:3,T4:2", gpus_per_node=2)
    assert [(node.gpus, node.gpu_type) for node in emulated.cluster.nodes] == [
        (2, "A100"), (1, "A100"), (2, "T4"),
    ]  # fmt: skip
    assert ServeConfig.model_validate({"slots": "3"}).slots == 3
    for wrong in ("A100", "A100:0", "A100:1,A100:2", "A100:x", ",", "0", 0, -1, "-:1"):
        with pytest.raises(ValidationError):
            ServeConfig.model_validate({"slots": wrong})


def test_more_slots_than_gpus_that_were_named_are_refused() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "4,5"}
    assert devices_of_slots(1, None, environment) == ("4",)
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES names 2"):
        devices_of_slots(3, None, environment)


def test_emulated_slots_see_no_gpu_where_the_scheduler_may_see_none() -> None:
    assert devices_of_slots(2, None, {"CUDA_VISIBLE_DEVICES": ""}) == ["", ""]
    assert devices_of_slots(2, None, {}) == ["0", "1"]


def test_gpus_have_names_and_memory_and_one_that_is_lost_is_left_out() -> None:
    gpus = [FakeGpu("NVIDIA A100", 80), FakeGpu("NVIDIA L4", 24, broken=True)]
    (found,) = Library(fake_pynvml(gpus)).gpus()
    assert str(found) == "0: NVIDIA A100, 80 GiB"
    assert found.is_called("0")
    assert found.is_called("GPU-0000")
    assert not found.is_called("1")


def test_without_driver_or_library_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [FakeGpu("A100")], driver=False)
    assert open_library() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_library() is None


class Machine:
    """An executor on fake GPUs, with a clock that only a test moves."""

    def __init__(self, root: Path, gpus: list[FakeGpu], workdir: Path) -> None:
        self.now = time.time()
        self.executor = LocalExecutor(
            root,
            (Node("n0", len(gpus)),),
            lambda name: harness.script(workdir, WAIT if name.startswith("wait") else DUMP),
            self.now,
            settings=GangSettings(5.0),
            library=Library(fake_pynvml(gpus)),
            clock=lambda: self.now,
        )

    def look(self) -> list[int]:
        """What is told of GPUs that others hold."""
        self.now += LOOK_SECONDS
        events = self.executor.poll(self.executor._told_until)
        return [event.gpus for event in events if isinstance(event, NodeOccupied)]


def test_processes_of_others_take_a_gpu_until_they_end(tmp_path: Path) -> None:
    gpus = [FakeGpu("A100"), FakeGpu("A100")]
    machine = Machine(tmp_path / "root", gpus, tmp_path)
    try:
        assert machine.look() == []
        gpus[0].processes.add(4711)
        assert machine.look() == []  # it might be one of ours that is just going
        assert machine.look() == [1]
        assert machine.look() == []
        gpus[0].processes.clear()
        assert machine.look() == [0]
    finally:
        machine.executor.shutdown(stop_jobs=True)


def test_a_gang_gets_the_gpu_that_is_free_and_its_own_processes_do_not_count(
    tmp_path: Path,
) -> None:
    gpus = [FakeGpu("A100"), FakeGpu("A100"), FakeGpu("A100")]
    root = tmp_path / "root"
    machine = Machine(root, gpus, tmp_path)
    try:
        gpus[0].processes.add(4711)
        machine.look()
        assert machine.look() == [1]
        first = harness.order("wait-a", slots=(0,))
        second = harness.order("dump-b", handle=1, slots=(1,))
        machine.executor.launch([first, second])
        folder = JobFolder.of(root, "dump-b")
        harness.wait_until(lambda: (folder.path / "env.json").exists())
        harness.wait_until(lambda: machine.executor._slots.is_taken("n0", 1))
        variables = json.loads((folder.path / "env.json").read_text())
        assert variables["CUDA_VISIBLE_DEVICES"] == "2"  # 0 is others', 1 has the first
        assert variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        gpus[1].processes.add(99)  # what the first gang does there
        machine.look()
        assert machine.look() == []
    finally:
        machine.executor.shutdown(stop_jobs=True)


def test_a_job_without_gpus_is_one_process_that_sees_none(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with harness.executor(root, {"cpu": harness.script(tmp_path, DUMP)}) as executor:
        watch = harness.watch(executor)
        job = harness.spec("cpu", gpus=0)
        watch.launch([Launch(0, job, (), 1)])
        watch.until_finished([job])
    variables = json.loads((JobFolder.of(root, "cpu").path / "env.json").read_text())
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    assert (variables["RANK"], variables["WORLD_SIZE"]) == ("0", "1")


def test_what_an_earlier_scheduler_gave_is_known_again(tmp_path: Path) -> None:
    gpus = [FakeGpu("A100"), FakeGpu("A100"), FakeGpu("A100")]
    root = tmp_path / "root"
    machine = Machine(root, gpus, tmp_path)
    gpus[0].processes.add(4711)
    machine.look()
    machine.look()
    order = harness.order("wait-a", slots=(0,))
    machine.executor.launch([order])  # really on GPU 1
    machine.executor.shutdown(stop_jobs=False)
    again = Machine(root, gpus, tmp_path)
    try:
        again.look()
        again.look()
        again.executor.adopt([order])
        again.executor.launch([harness.order("dump-b", handle=1, slots=(1,))])
        folder = JobFolder.of(root, "dump-b")
        harness.wait_until(lambda: (folder.path / "env.json").exists())
        assert json.loads((folder.path / "env.json").read_text())["CUDA_VISIBLE_DEVICES"] == "2"
        again.executor.stop(np.array([0]))
    finally:
        again.executor.shutdown(stop_jobs=True)
