"""Whose job it is: it runs as its owner, with what Slurm lets that user have, and no more."""

from __future__ import annotations

import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.slurm import harness
from tests.executors.slurm.test_gangs import own_jobs, state_of
from tests.people.users import User, made_users

from shockwave.executors.slurm.allocation import SlurmAllocationExecutor
from shockwave.executors.slurm.executor import SlurmExecutor
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import JobFinished, JobRunning, JobStopped, Placement, StopReason
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

WHO_AM_I = 'echo $(id -u) $(id -g) $HOME $(pwd) > "$SHOCKWAVE_DIR/who-$RANK"'
FOR_EVER = "while true; do sleep 0.2; done"
GPUS_OF_A_USER = 2


@pytest.fixture(scope="module")
def users() -> Iterator[tuple[User, User]]:
    with made_users("alice", "bob") as (alice, bob):
        yield alice, bob


@pytest.fixture(scope="module")
def accounted(
    tmp_path_factory: pytest.TempPathFactory, users: tuple[User, User]
) -> Iterator[SlurmCluster]:
    """Two nodes, and accounts: speech is bob's, root is in vision, and alice in all others."""
    problem = why_slurm_cannot_run(accounts=True)
    if problem is not None:
        pytest.skip(problem)
    alice, bob = users
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,  # users pass through it
        SlurmCluster(
            Path(folder), nodes=2, accounts=True, settings={"Licenses": "solver:1"}
        ) as made,
    ):
        Path(folder).chmod(0o755)

        def account(*words: str) -> None:
            made.run("sacctmgr", "--immediate", *words)

        account("add", "account", "vision,speech")
        account("add", "qos", "few", f"MaxTRESPerUser=gres/gpu={GPUS_OF_A_USER}")
        account("add", "user", "root", "account=vision")
        account("add", "user", alice.name, "account=vision", "qos=normal,few")
        account("add", "account", "narrow", f"GrpTRES=gres/gpu={GPUS_OF_A_USER}")
        account("add", "account", "slow")
        account("add", "user", alice.name, "account=narrow")
        account("add", "user", alice.name, "account=slow", "MaxJobs=1")
        account("add", "user", bob.name, "account=speech", "qos=normal")
        yield made


@pytest.fixture
def cluster(accounted: SlurmCluster) -> Iterator[SlurmCluster]:
    yield accounted
    accounted.heal()


@pytest.fixture
def folder() -> Iterator[Path]:
    """That users can pass through, as the state folder of a scheduler of root's."""
    with tempfile.TemporaryDirectory(prefix="sw-owners-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def shell(script: str, user: User, **options: str) -> Command:
    return Command(("/bin/sh", "-c", script), str(user.home), {}, options, user.name)


@pytest.mark.parametrize("kind", [SlurmExecutor, SlurmAllocationExecutor])
def test_a_job_runs_as_its_owner_and_its_files_are_theirs(
    cluster: SlurmCluster, users: tuple[User, User], folder: Path, kind: type[SlurmExecutor]
) -> None:
    alice, bob = users
    commands = {user.name: shell(WHO_AM_I, user) for user in users}
    with harness.executor(cluster, folder, commands, kind=kind, start_seconds=60.0) as executor:
        watch = harness.watch(executor)
        executor.nodes()
        watch.poll()
        both: Placement = (("n0", (0,)), ("n1", (1, 2)))
        watch.launch(
            [
                harness.order(alice.name, both),
                harness.order(bob.name, (("n0", (1,)),), handle=1),
            ]
        )
        watch.until(lambda: len(watch.of(JobFinished)) == 2)
        assert not watch.of(JobStopped)
        for user in users:
            path = executor.folder(user.name)
            ranks = sorted(path.glob("who-*"))
            assert len(ranks) == (3 if user is alice else 1)
            for rank in ranks:
                home = str(user.home)
                assert rank.read_text().split() == [str(user.uid), str(user.gid), home, home]
                assert rank.stat().st_uid == user.uid
            assert path.stat().st_uid == user.uid
            assert path.stat().st_mode & 0o777 == 0o700
        with pytest.raises(PermissionError):
            bob.do(lambda: (executor.folder(alice.name) / "who-0").read_text())


def test_slurm_accounts_for_the_owner_and_nobody_passes_for_another(
    cluster: SlurmCluster, users: tuple[User, User], folder: Path
) -> None:
    alice, bob = users
    commands = {"a": shell(FOR_EVER, alice)}
    with harness.executor(cluster, folder, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("a", (("n0", (0, 1)),))])
        watch.until(lambda: bool(watch.of(JobRunning)))
        (number,) = own_jobs(cluster)
        said = cluster.run("squeue", "--noheader", f"--jobs={number}", "--format=%u %a %k").split()
        assert said[:2] == [alice.name, "vision"]
        # Bob gives a job of his the name of hers: it stays his, and hers is not touched.
        forged = cluster.run(
            "sbatch", "--parsable", f"--uid={bob.uid}", f"--gid={bob.gid}", "--account=speech",
            "--nodelist=n0", "--gres=gpu:1", "--output=/dev/null", "--chdir=/",
            f"--comment={said[2]}", "--wrap=sleep 1000",
        ).strip()  # fmt: skip
        cluster.wait_for(lambda: state_of(cluster, forged) == "RUNNING", "the start of a job")
        watch.until(lambda: executor._look.nodes["n0"].occupied == 1)
        cluster.run("scancel", number)
        watch.until(lambda: bool(watch.of(JobStopped)))
        told = watch.of(JobStopped)[0].detail  # by Slurm, or by its ranks if they are faster
        assert f"root cancelled its Slurm job (Slurm job {number})" in told or "SIGTERM" in told
        assert state_of(cluster, forged) == "RUNNING"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"account": "speech"}, "has no such account.*speech.*There are .*vision"),
        ({"account": "vision", "qos": "nosuch"}, "may not use.*nosuch.*There are few, normal"),
    ],
)
def test_an_account_of_others_is_refused_at_once(
    cluster: SlurmCluster,
    users: tuple[User, User],
    folder: Path,
    options: dict[str, str],
    says: str,
) -> None:
    alice, _ = users
    job = harness.order("a", (("n0", (0,)),)).job
    with harness.executor(cluster, folder, {}) as executor:
        executor.nodes()
        with pytest.raises(InputError, match=says):
            executor.check(job, shell("true", alice, **options))
        assert executor.check(job, shell("true", alice, account="vision", qos="few")) == []
        nobody = Command(("true",), "/", {}, {}, pwd.getpwnam("nobody").pw_name)
        with pytest.raises(InputError, match=r"[Ii]nvalid account"):
            executor.check(job, nobody)


@pytest.mark.parametrize(
    ("limited", "says"),
    [
        ({"qos": "few"}, "QOSMaxGRESPerUser"),
        ({"account": "narrow"}, "AssocGrpGRES"),
        ({"account": "slow"}, "AssocMaxJobsLimit"),
    ],
)
def test_a_job_beyond_the_limit_of_its_owner_delays_nobody(
    cluster: SlurmCluster,
    users: tuple[User, User],
    folder: Path,
    limited: dict[str, str],
    says: str,
) -> None:
    """Be it of a QOS, of an account as a whole, or of the user's own association with it."""
    alice, bob = users
    commands = {
        "first": shell(FOR_EVER, alice, **limited),
        "beyond": shell("true", alice, **limited),
        "bobs": shell("true", bob),
    }
    with harness.executor(cluster, folder, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("first", (("n0", (0, 1)),))])
        watch.until(lambda: bool(watch.of(JobRunning)))
        watch.launch([harness.order("beyond", (("n0", (2,)),), handle=1)])
        with local.impatient(executor, 2.0):
            watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert (stop.job, stop.reason) == ("beyond", StopReason.NOT_STARTED)
        assert says in stop.detail
        watch.launch([harness.order("bobs", (("n0", (2,)),), handle=2)])
        watch.until(lambda: [event.job for event in watch.of(JobFinished)] == ["bobs"])


def test_the_options_exclusive_and_licenses_are_kept_by_slurm(
    cluster: SlurmCluster, users: tuple[User, User], folder: Path
) -> None:
    alice, bob = users
    commands = {
        "alone": shell(FOR_EVER, alice, exclusive="True", licenses="solver:1"),
        "beside": shell("true", bob),
        "unlicensed": shell("true", bob, licenses="solver:1"),
    }
    with harness.executor(cluster, folder, commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order("alone", (("n0", (0,)),))])
        watch.until(lambda: bool(watch.of(JobRunning)))
        watch.until(lambda: executor._look.nodes["n0"].occupied == 3)  # nobody else's, nor ours
        (number,) = own_jobs(cluster)
        said = cluster.run("scontrol", "--oneliner", "show", "job", number)
        assert "Licenses=solver:1" in said
        watch.launch([harness.order("unlicensed", (("n1", (0,)),), handle=1)])
        with local.impatient(executor, 2.0):
            watch.until(lambda: bool(watch.of(JobStopped)))
        (stop,) = watch.of(JobStopped)
        assert "Licenses" in stop.detail
        watch.launch([harness.order("beside", (("n1", (0,)),), handle=2)])
        watch.until(lambda: [event.job for event in watch.of(JobFinished)] == ["beside"])
