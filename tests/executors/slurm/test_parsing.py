"""What Slurm's programs print, in the versions that are about."""

from __future__ import annotations

import pytest

from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.nodes import Health
from shockwave.executors.gangs.outcome import Outcome
from shockwave.executors.slurm.client import for_jobs, in_short
from shockwave.executors.slurm.eligible import matches, with_features
from shockwave.executors.slurm.jobs import SlurmJob, ending_of, read_jobs
from shockwave.executors.slurm.nodes import SlurmNode, read_nodes

SLURM_20_11 = (
    "NodeName=g1 Arch=x86_64 CoresPerSocket=16 CPUAlloc=0 CPUTot=64 CPULoad=0.01 "
    "AvailableFeatures=volta,ib ActiveFeatures=volta,ib Gres=gpu:4(S:0-1) GresDrain=N/A "
    "GresUsed=gpu:0(IDX:N/A) NodeAddr=10.0.0.1 NodeHostName=g1 Version=20.11.9 OS=Linux 5.4.0 #1 "
    "SMP RealMemory=256000 State=DOWN* ThreadsPerCore=2 Partitions=gpu,debug "
    "Reason=Not responding [slurm@2024-01-01T00:00:00]"
)
SLURM_22_05 = (
    "NodeName=n3 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=6.99 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:v100:4 GresDrain=N/A "
    "GresUsed=gpu:v100:1(IDX:2) NodeAddr=127.0.0.1 NodeHostName=vm Port=20004 Version=22.05.8 "
    "OS=Linux 6.1 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=100000 State=MIXED+DRAIN "
    "ThreadsPerCore=1 Owner=N/A MCS_label=N/A Partitions=gpus  CfgTRES=cpu=64,mem=100000M "
    "AllocTRES= Reason=fan broken, State=IDLE [root@2026-11-15T22:59:49]"
)
SLURM_24_05 = (
    "NodeName=dgx-07 Arch=x86_64 CoresPerSocket=64 CPUAlloc=96 CPUEfctv=256 CPUTot=256 "
    "AvailableFeatures=a100,nvlink ActiveFeatures=a100,nvlink "
    "Gres=gpu:a100:6(S:0-1),gpu:1g.10gb:2(S:1),shard:0 "
    "GresUsed=gpu:a100:5(IDX:0-4),gpu:1g.10gb:1(IDX:6),shard:0 NodeAddr=dgx-07 NodeHostName=dgx-07 "
    "Version=24.05.4 OS=Linux 5.15 RealMemory=2000000 State=MIXED+PLANNED ThreadsPerCore=2 "
    "Partitions=a100 CfgTRES=cpu=256,gres/gpu=8 AllocTRES=cpu=96,gres/gpu=6 Comment=State=DOWN"
)


def test_nodes_of_several_versions() -> None:
    old, here, new = read_nodes("\n".join([SLURM_20_11, SLURM_22_05, "", SLURM_24_05]))
    assert (old.name, old.gpus, old.gpu_type, old.gpus_used) == ("g1", 4, "gpu", 0)
    assert old.address == "10.0.0.1"
    assert old.health is Health.DOWN
    assert old.partitions == {"gpu", "debug"}
    assert old.features == {"volta", "ib"}
    assert (here.gpus, here.gpu_type, here.gpus_used) == (4, "v100", 1)
    assert here.health is Health.WITHHELD
    assert here.reason.startswith("fan broken")
    assert here.features == frozenset()
    assert (new.gpus, new.gpu_type, new.gpus_used) == (8, "a100+1g.10gb", 6)
    assert (new.has("a100"), new.has("1g.10gb"), new.has("v100")) == (True, True, False)
    assert new.health is Health.UP


@pytest.mark.parametrize(
    ("state", "health"),
    [
        ("IDLE", Health.UP),
        ("ALLOCATED", Health.UP),
        ("MIXED+PLANNED", Health.UP),
        ("IDLE+CLOUD+POWERED_DOWN", Health.UP),  # Slurm wakes it when it is needed
        ("IDLE+DRAIN", Health.WITHHELD),
        ("MIXED+MAINTENANCE", Health.WITHHELD),
        ("RESERVED", Health.WITHHELD),
        ("DOWN", Health.DOWN),
        ("DOWN+DRAIN+NOT_RESPONDING", Health.DOWN),
        ("DOWN*+DRAIN", Health.DOWN),
        ("UNKNOWN", Health.UNCLEAR),  # just after its controller has started
        ("MIXED+NOT_RESPONDING", Health.UNCLEAR),
        ("IDLE*", Health.UNCLEAR),
    ],
)
def test_states_of_nodes(state: str, health: Health) -> None:
    assert _node(state=state).health is health


def test_jobs_and_comments_that_hold_anything() -> None:
    text = (
        "12|0|RUNNING|None|100|gres:gpu:2|n[0-1,3]|shockwave/0a1b/job%2F1/3\n"
        "13|1000|PENDING|Resources|100|gres/gpu:v100:4||a|b\nand a second line\n"
        "14|1000|COMPLETED|None|0|N/A|n2|(null)\n"
    )
    running, pending, ended = read_jobs(text)
    assert running.nodes == ("n0", "n1", "n3")
    assert running.gpus_per_node == 2
    assert running.holds_gpus
    assert LaunchName.read(running.comment) == LaunchName("0a1b", "job%2F1", 3)
    assert (pending.comment, pending.reason, pending.gpus_per_node) == ("a|b", "Resources", 4)
    assert not pending.holds_gpus
    assert LaunchName.read(pending.comment) is None
    assert ended.ended
    assert not ended.holds_gpus


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        (["NODE_FAIL"], Outcome.LOST),
        (["CANCELLED", "NODE_FAIL"], Outcome.LOST),  # the other component of a gang
        (["OUT_OF_MEMORY"], Outcome.CRASHED),
        (["CANCELLED"], Outcome.STOPPED),
        (["TIMEOUT"], Outcome.STOPPED),
        (["PREEMPTED"], Outcome.STOPPED),
    ],
)
def test_what_an_end_means(states: list[str], outcome: Outcome) -> None:
    ending = ending_of([SlurmJob(7, state, "", 1, ("n0",), "") for state in states])
    assert ending is not None
    assert ending.outcome is outcome
    assert "7" in ending.detail


def test_an_end_that_slurm_knows_nothing_about() -> None:
    assert ending_of([SlurmJob(7, "FAILED", "NonZeroExitCode", 1, ("n0",), "")]) is None


@pytest.mark.parametrize(
    ("constraint", "fits"),
    [
        ("a100", True),
        ("v100", False),
        ("v100|a100", True),
        ("a100&nvlink", True),
        ("a100,v100", False),
        ("v100|(a100&!slow)", True),
        ("[rack1|nvlink]", True),
        ("a100*2&nvlink*2", True),
    ],
)
def test_constraints(constraint: str, fits: bool) -> None:
    assert matches(frozenset({"a100", "nvlink"}), constraint) is fits


@pytest.mark.parametrize("constraint", ["", "a&", "(a", "a)", "|a"])
def test_a_constraint_that_is_none_is_left_to_slurm(constraint: str) -> None:
    with pytest.raises(ValueError, match=r"feature|bracket|constraint"):
        matches(frozenset(), constraint)
    assert with_features([_node()], constraint) == [_node()]


def test_complaints_without_who_complains() -> None:
    said = (
        "sbatch: error: invalid partition specified: nosuch\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
    )
    expected = "invalid partition specified: nosuch; Invalid partition name specified"
    assert in_short(said) == expected


def test_a_job_does_not_believe_that_it_is_the_job_in_which_its_scheduler_runs() -> None:
    environment = {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "4",
        "SBATCH_PARTITION": "x",
        "SHOCKWAVE_TOKEN": "secret",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert for_jobs(environment) == {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf"}


def _node(state: str = "IDLE") -> SlurmNode:
    return SlurmNode("n0", "n0", state, 4, "v100", 0, frozenset(), frozenset(), "")
