"""``shockwave reproduce``, on small clones of our own making, and on the real one where it is."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import SHARED
from tests.traces import sources
from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.cli.published import NSDI23_POLICIES, SIA_TABLE_4, nsdi23_results
from shockwave.model.errors import InputError
from shockwave.traces import native
from shockwave.traces.nsdi23 import WORKLOADS, jobs_of

RULES = """
import no_such_module

raise RuntimeError("nothing but two functions is run")

def get_accordion_bs_pattern(job_type, initial_batch_size, num_epochs, job_id):
    return [initial_batch_size] + [256 for _ in range(num_epochs - 1)]

def get_gns_bs_pattern(job_type, batch_size, num_epochs, scale_factor):
    return [min(batch_size * 2 ** min(epoch // 8, 2), 40) for epoch in range(num_epochs)]
"""


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, " ".join(result.output.split())


def clone_of_nsdi23(folder: Path) -> Path:
    scheduler = folder / "scheduler"
    results = scheduler / "reproduce" / "pickles" / "tacc_32gpus"
    results.mkdir(parents=True)
    (scheduler / "traces" / "reproduce").mkdir(parents=True)
    (scheduler / "utils.py").write_text(RULES)
    (scheduler / "tacc_throughputs.json").write_text(json.dumps(sources.THROUGHPUTS))
    trace = WORKLOADS[32].trace
    lines = sources.GAVEL.splitlines()[:3]
    (scheduler / "traces" / "reproduce" / trace).write_text("\n".join(lines))
    for number, theirs in enumerate(NSDI23_POLICIES.values()):
        result = {
            "makespan": 7200.0 + 3600 * number,
            "avg_jct": np.float64(3600.0),
            "jct_list": [1800.0, 3600.0, 5400.0],
            "finish_time_fairness_list": [0.5, 1.0, 1.5],
            "rounds": OrderedDict({1: {2, 3}}),
        }
        name = f"{theirs}_{trace.removesuffix('.trace')}_simulation.pickle"
        # As numpy 1 named its modules, when the real files were written.
        data = pickle.dumps(result, protocol=3)
        (results / name).write_bytes(data.replace(b"numpy._core.", b"numpy.core."))
    return folder


def test_regimes_come_from_the_rules_of_the_clone(tmp_path: Path) -> None:
    jobs = jobs_of(clone_of_nsdi23(tmp_path), WORKLOADS[32])
    regimes = [[(r.configuration, r.epochs) for r in job.regimes] for job in jobs]
    assert regimes == [[(10, 8), (20, 8), (40, 7)], [(32, 1), (256, 2)], [(10, 1)]]


def test_nsdi23_prints_ours_beside_published(tmp_path: Path) -> None:
    clone = clone_of_nsdi23(tmp_path / "clone")
    out, saved = tmp_path / "out.json", tmp_path / "saved"
    code, said = run(
        "reproduce", "nsdi23", "--source", clone, "-p", "fifo", "-p", "themis",
        "--json", out, "--save", saved,
    )  # fmt: skip
    assert code == 0, said
    document = json.loads(out.read_text())
    assert document["published"]["shockwave-nsdi23"] == {
        "makespan_seconds": 7200.0,
        "mean_jct_seconds": 3600.0,
        "p99_jct_seconds": pytest.approx(5364.0),
        "worst_ftf_static": 1.5,
        "unfair_static": pytest.approx(1 / 3),
    }
    assert set(document["ours"]) == {"fifo", "themis"}
    assert document["ours"]["fifo"]["makespan_seconds"] > 0
    assert len(native.read(saved / "nsdi23-32gpu.jsonl")) == 3


def test_a_pickle_that_would_call_something_is_refused(tmp_path: Path) -> None:
    clone = clone_of_nsdi23(tmp_path)
    path = next((clone / "scheduler" / "reproduce" / "pickles" / "tacc_32gpus").glob("allox*"))

    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path}/called",)

    path.write_bytes(pickle.dumps({"makespan": Bad()}))
    with pytest.raises(InputError, match=r"allox.*cannot be read as results: .*system"):
        nsdi23_results(clone, WORKLOADS[32].trace)
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nsdi23"], "is no clone of the original's repository"),
        (["nsdi23", "--gpus", "7"], "must be one of 32, 64, 128, 256"),
        (["sia"], "is no clone of Sia's repository"),
    ],
)
def test_another_folder_is_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    code, said = run("reproduce", *arguments, "--source", tmp_path)
    assert code == 2
    assert message in said


def test_rules_that_do_not_fit_are_named(tmp_path: Path) -> None:
    clone = clone_of_nsdi23(tmp_path)
    (clone / "scheduler" / "utils.py").write_text("def get_gns_bs_pattern(a, b, c, d): return [7]")
    with pytest.raises(InputError, match=r"utils\.py: does not define get_accordion_bs_pattern"):
        jobs_of(clone, WORKLOADS[32])
    (clone / "scheduler" / "utils.py").write_text(RULES.replace("256", "open('x')"))
    with pytest.raises(InputError, match=r"utils\.py: gives no regimes for job 1: NameError"):
        jobs_of(clone, WORKLOADS[32])


def test_sia_prints_ours_beside_table_4(tmp_path: Path) -> None:
    simulator = tmp_path / "sia-simulator"
    workloads = simulator / "workloads" / "philly"
    workloads.mkdir(parents=True)
    sources.elastic_sia(simulator)
    for number in (1, 2):
        (workloads / f"workload-{number}.csv").write_text(sources.SIA)
    out, saved = tmp_path / "out.json", tmp_path / "saved"
    code, said = run(
        "reproduce", "sia", "--source", tmp_path, "-p", "gavel", "-p", "pollux", "--json", out,
        "--save", saved,
    )  # fmt: skip
    assert code == 0, said
    document = json.loads(out.read_text())
    assert set(document["published"]) == set(SIA_TABLE_4)
    assert document["published"]["sia"]["mean_jct_seconds"] == 1.9 * 3600
    assert document["ours"]["gavel"]["mean_jct_seconds"] > 0
    assert document["ours"]["pollux"]["mean_jct_seconds"] > 0
    job = native.read(saved / "sia-workload-1.jsonl")[0]
    assert job.spec.gpu_types == ("T4",)
    assert job.spec.gpu_counts == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("gpus", "name"), [(32, "paper-32gpu-120jobs"), (128, "paper-128gpu-460jobs")]
)
def test_the_real_clone_gives_the_native_traces(shared_traces: Path, gpus: int, name: str) -> None:
    clone = SHARED / "clones" / "shockwave"
    if not clone.is_dir():
        pytest.skip("no clone of the original's repository is beside this checkout")
    jobs = jobs_of(clone, WORKLOADS[gpus])
    expected = native.read(shared_traces / f"{name}.jsonl")
    assert [(job.spec, job.regimes) for job in jobs] == [
        (job.spec, job.regimes) for job in expected
    ]
