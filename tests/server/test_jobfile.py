"""Job files: what they say, and what is said about those that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from pydantic import ValidationError

from shockwave.model.errors import InputError
from shockwave.model.job import Adaptation
from shockwave.server.jobfile import job_schema, read_job_file, schema_text
from shockwave.server.records import Submission

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "job.schema.json"
WHOLE = """\
name: resnet-18
command: [python, train.py, --lr, "0.1"]
workdir: ../code
env:
  OMP_NUM_THREADS: "1"
gpus: 2
epochs: 30
adaptation: accordion
batch_sizes: [32, 256]
epoch_seconds: {32: 36.4, 256: 30.9}
model: ResNet-18
tenant: vision
weight: 2
"""
SMALL = "command: [python, train.py]\nepochs: 30\n"


def read(folder: Path, text: str) -> Submission:
    path = folder / "job.yaml"
    path.write_text(text)
    return read_job_file(path)


def test_every_field_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == Submission(
        name="resnet-18",
        command=["python", "train.py", "--lr", "0.1"],
        workdir=str(tmp_path / "../code"),
        env={"OMP_NUM_THREADS": "1"},
        gpus=2,
        epochs=30,
        adaptation=Adaptation.ACCORDION,
        batch_sizes=[32, 256],
        epoch_seconds={32: 36.4, 256: 30.9},
        model="ResNet-18",
        tenant="vision",
        weight=2.0,
    )


def test_a_job_starts_in_the_folder_of_its_file(tmp_path: Path) -> None:
    assert Path(read(tmp_path, SMALL).workdir) == tmp_path
    assert read(tmp_path, SMALL + "workdir: /data\n").workdir == "/data"


def test_json_is_yaml(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps(yaml.safe_load(WHOLE))) == read(tmp_path, WHOLE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochs: 3\n", "field command: the field is required"),
        (SMALL + "gpus: -1\n", "line 3, field gpus: expected 0 to 100000 GPUs (got -1)"),
        (SMALL + "gpu: 2\n", "line 3, field gpu: there is no such field. Did you mean gpus?"),
        ("command: python train.py\nepochs: 3\n",
         "line 1, field command: should be a valid list (got 'python train.py'). Write the "
         "command as a list"),
        (SMALL + "env:\n  A: x\n  B: 1\n", "line 5, field env.B: should be a valid string (got 1)."
         " Put numbers and yes/no in quotes"),
        (SMALL + "name: ../../etc\n", "line 3, field name: should be letters, digits"),
        (SMALL + "batch_sizes:\n - 32\n - big\n", "line 5, field batch_sizes.1: should be a valid"
         " integer"),
        (SMALL + "epoch_seconds:\n  32: 4\n  64: -1\n", "line 5, field epoch_seconds.64: should be"
         " greater than 0 (got -1)"),
        (SMALL + "epoch_seconds:\n  few: 4\n", "line 4, field epoch_seconds.few"),
        (SMALL + "adaptation: acordion\n", "line 3, field adaptation: should be 'static', "),
        (SMALL + "slurm:\n  partition: -x\n", "line 4, field slurm.partition: should be a name, or "
         "several with commas, without blanks or a dash at the start (got '-x')"),
        (SMALL + "slurm:\n  qos: a b\n", "line 4, field slurm.qos: should be one name"),
        (SMALL + "slurm:\n  partion: x\n", "line 4, field slurm.partion: there is no such field. "
         "Did you mean partition?"),
        (SMALL + "epoch_second: {1: 4}\n", "line 3, field epoch_second: there is no such field. "
         "Did you mean epoch_seconds?"),
        (SMALL + "slurmm: gpu\n", "line 3, field slurmm: there is no such field. Did you mean "
         "slurm?"),
        (SMALL + "slurm: gpu\n", "line 3, field slurm: should be"),
        (SMALL + "slurm:\n  mem_per_gpu: lots\n", "line 4, field slurm.mem_per_gpu: should be an "
         "amount such as 16G"),
        (SMALL + "slurm:\n  time: tonight\n", "line 4, field slurm.time: should be minutes"),
        (SMALL + "slurm:\n  cpus_per_gpu: 0\n", "line 4, field slurm.cpus_per_gpu: should be"),
        (SMALL + "gpus: -1\nweight: -1\n", "1 more field is bad"),
        (SMALL + "epochs: 4\n", "line 3, field epochs: the field is there twice, first in line 2"),
        ("command: [python\nepochs: 3\n", "line 2, column"),
        ("- a\n- b\n", "expected fields such as"),
        ("", "expected fields such as"),
        ("command: \x01\n", "not YAML"),
        (SMALL + "model: !!python/object/apply:os.system ['true']\n", "line 3: not plain data"),
        (SMALL + "model: 2024-99-99\n", "not plain data"),
        ("[" * 2000, "not YAML"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_the_line_the_field_and_what_is_expected(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "job.yaml"))
    assert said in message
    assert "\n" not in message


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        read_job_file(tmp_path)
    with pytest.raises(InputError, match="at most 1,048,576 bytes"):
        read(tmp_path, "#" * 2_000_000)


def test_the_published_schema_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), (
        "write it again: shockwave submit --schema > docs/job.schema.json"
    )


CASES: list[dict[str, Any]] = [
    {},
    {"gpus": 0},
    {"gpus": "two"},
    {"epochs": 0},
    {"unknown": 1},
    {"name": "a/b"},
    {"name": None},
    {"command": []},
    {"command": "python"},
    {"env": {"A": 1}},
    {"epoch_seconds": {"32": 1.5}},
    {"epoch_seconds": {"few": 1.5}},
    {"epoch_seconds": {"32": 0}},
    {"adaptation": "gns"},
    {"adaptation": "other"},
    {"tenant": ""},
    {"weight": 0},
    {"slurm": None},
    {"slurm": {"partition": "gpu"}},
    {"slurm": {"partition": "-x"}},
    {"slurm": {"queue": "x"}},
    {"elsewhere": {"queue": "x"}},
    {"elsewhere": "x"},
    {"not a name": {}},
]


@pytest.mark.parametrize("change", CASES, ids=str)
def test_the_schema_and_the_service_agree(change: dict[str, Any]) -> None:
    fields = yaml.safe_load(SMALL) | change
    try:
        Submission.model_validate(fields)
        is_accepted = True
    except ValidationError:
        is_accepted = False
    assert jsonschema_rs.validator_for(job_schema()).is_valid(fields) == is_accepted
