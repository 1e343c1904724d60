"""Small sources of our own making in every format, with the traps that the real ones have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from shockwave.cli.main import app
from shockwave.engine.journal import read_journal
from shockwave.model.events import JobSubmitted
from shockwave.server.archive import Archive
from shockwave.server.store import Store

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,ua,vc1,8,64,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:42:01,2020-06-09 19:42:01,3600,60
12,ub,vc2,0,4,1,COMPLETED,2020-06-09 18:41:02,2020-06-09 18:41:02,2020-06-09 18:41:12,10,0
13,ub,vc2,1,4,1,FAILED,2020-06-09 18:40:01,2020-06-09 18:40:01,2020-06-09 18:40:31,30,0
14,ub,vc2,1,4,1,CANCELLED,2020-06-09 18:43:01,2020-06-09 18:43:01,2020-06-09 18:43:01,0,0
15,ub,vc2,1,4,1,CANCELLED,2020-06-09 18:44:01,None,None,,0
16,ub,vc2,1,4,1,COMPLETED,2020-02-30 18:44:01,2020-06-09 18:43:01,2020-06-09 18:53:01,600,0
13,ub,vc2,1,4,1,COMPLETED,2020-06-09 18:44:01,2020-06-09 18:45:01,2020-06-09 18:55:01,600,60
17,ub,vc2,two,4,1,COMPLETED,2020-06-09 18:44:01,2020-06-09 18:45:01,2020-06-09 18:55:01,600,60
18,ub,vc2,2,4,1,TIMEOUT,2020-06-09 18:46:01,,,120,60
19,ub,vc2
"""

SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,\
gpu_time
1,u1,1,8,128,Pretrain,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,\
2023-03-01 00:20:51+08:00,117,32,936.0
2,u2,1,8.0,128,Other,COMPLETED,2023-02-28 16:18:23+00:00,2023-02-28 16:18:55+00:00,\
2023-02-28 16:19:55+00:00,60,32,480.0
"""

KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,\
start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
d1,u1,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
d2,u1,8,64,960,1000,100.0,,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,,,,\
82,12.0,5248.0
"""

PHILLY_CSV = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,4,11804.0,6214e9
2017-10-09 06:13:03,0.0,1,0.0,6214e9
2017-10-09 06:13:04,nan,1,nan,6214e9
"""

ALIBABA_2023 = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,\
scheduled_time
pod-0,12000,16384,1,1000,,LS,Running,0,12537496,10
pod-1,6000,12288,1,460,,BE,Running,427061,427161,427071
pod-2,20000,65536,0,0,,LS,Running,2759674,12902960,2759676
pod-3,11908,47104,1,1000,,BE,Pending,10001278,10001403,
pod-4,11908,47104,8,1000,V100M16|V100M32,BE,Succeeded,10001278.0,10001403.0,10001300.0
"""

ALIBABA_2026 = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
1,13,A10,20.0,1.0,1,0.0,2764799.0,HP
2,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot
3,57,A10,15,0.5,3,9589664,100,Spot
4,57,A10,15,0,3,9589664,100,Spot
"""

SLURM = """\
JobID|JobName|User|Account|Partition|Submit|Start|End|Elapsed|State|NNodes|AllocTRES
100|train a|ann|lab|gpu|2026-01-05T10:00:00|2026-01-05T10:05:00|2026-01-06T11:05:10|\
1-01:00:10|COMPLETED|2|billing=8,cpu=8,gres/gpu=8,gres/gpu:a100=8,mem=64G,node=2
100.batch|batch||lab||2026-01-05T10:05:00|2026-01-05T10:05:00|2026-01-06T11:05:10|\
1-01:00:10|COMPLETED|1|cpu=4,gres/gpu=4
101_3|array|bob|lab|gpu|2026-01-05T10:00:01|2026-01-05T10:05:00|2026-01-05T10:07:30|02:30|\
CANCELLED by 1001|1|billing=1,cpu=1,gres/gpu:a100=1,gres/gpu:v100=1
102|never|bob|lab|gpu|2026-01-05T10:00:02|Unknown|Unknown|00:00:00|CANCELLED|1|
103|cpu only|bob|lab|cpu|2026-01-05T10:00:02|2026-01-05T10:05:00|2026-01-05T10:07:30|00:02:30|\
COMPLETED|1|billing=1,cpu=1
104|a|b|bob|lab|gpu|2026-01-05T10:00:02|2026-01-05T10:05:00|2026-01-05T10:07:30|00:02:30|\
COMPLETED|1|billing=1,cpu=1
"""


def _attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, object]:
    detail = [{"ip": f"m{n}", "gpus": [f"gpu{i}" for i in range(k)]} for n, k in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


PHILLY_JSON: list[dict[str, object]] = [
    {
        "status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "user": "ce2f4c",
        "submitted_time": "2017-10-07 01:11:39",
        "attempts": [
            _attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
            _attempt("2017-10-07 01:13:30", "2017-10-07 03:13:30", 8, 8),
            _attempt("2017-10-07 03:14:30", None, 8, 8),
        ],
    },
    {
        "status": "Killed", "vc": "6214e9", "jobid": "application_2", "user": "a",
        "submitted_time": "2017-10-07 01:00:00", "attempts": [],
    },
    {
        "status": "Failed", "vc": "6214e9", "jobid": "application_3", "user": "a",
        "submitted_time": "2017-10-07 01:10:00",
        "attempts": [_attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", 1)],
    },
    {
        "status": "Failed", "vc": "6214e9", "jobid": "application_4", "user": "a",
        "submitted_time": "2017-10-07 01:10:00", "attempts": [_attempt("None", None, 1)],
    },
    {
        "status": "Failed", "vc": "6214e9", "jobid": "application_5", "user": "a",
        "submitted_time": "2017-10-07 01:10:00",
        "attempts": [_attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09")],
    },
]  # fmt: skip

THROUGHPUTS = {
    "k80": {"('LM (batch size 10)', 1)": {"null": 1.0}},
    "v100": {
        "('LM (batch size 10)', 1)": {"null": 100.0, "('LM (batch size 20)', 1)": [50.0, 50.0]},
        "('LM (batch size 20)', 1)": {"null": 75.0},
        "('LM (batch size 40)', 1)": {"null": 50.0},
        "('LM (batch size 80)', 1)": {"null": 0.0},  # did not fit its memory
        "('ResNet-18 (batch size 32)', 2)": {"null": 50.0},
        "('ResNet-18 (batch size 256)', 2)": {"null": 10.0},
    },
}


def trace_line(
    kind: str, steps: int, gpus: int, mode: str, arrival: float, *, columns: int = 12
) -> str:
    cells = [kind, "python3 main.py --data %s", "folder", "--steps", "1", steps, gpus, mode, 1,
             -1.0, 1418, arrival]  # fmt: skip
    if columns == 10:
        del cells[10], cells[7]
    if columns == 7:
        cells = [kind, "cd %s && python3 main.py", "--steps", "1", steps, arrival, gpus]
    return "\t".join(str(cell) for cell in cells)


GAVEL = "\n".join(
    [
        trace_line("LM (batch size 10)", 134_583, 1, "gns", 0),
        trace_line("ResNet-18 (batch size 32)", 1563 * 3, 2, "accordion", 55),
        trace_line("LM (batch size 10)", 1, 1, "static", 60.5),
        trace_line("LM (batch size 10)", 100, 4, "static", 61),
        trace_line("LM (batch size 10)", 100, 1, "magic", 61),
        trace_line("LM (batch size 10)", 100, 1, "static", 70, columns=10),
        trace_line("LM (batch size 10)", 100, 1, "static", 71, columns=7),
        "LM (batch size 10)\tcut off",
    ]
)

SIA = """\
name,time,application,num_replicas,batch_size
toy-0,10.5,toy,1,16
toy-1,20,toy,8,64
toy-2,30,toy,3,32
toy-3,30,unheard,3,32
toy-4,31,toy,2,1000
toy-5,32,toy,0,16
"""


def _plain(name: str, text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def philly(folder: Path) -> Path:
    return _plain("cluster_job_log", json.dumps(PHILLY_JSON, indent=2))(folder)


def gavel(folder: Path) -> Path:
    _plain("v100_throughputs.json", json.dumps(THROUGHPUTS))(folder)
    return _plain("jobs.trace", GAVEL)(folder)


def sia(folder: Path) -> Path:
    toy = folder / "traces" / "toy"
    toy.mkdir(parents=True, exist_ok=True)
    _plain("validation-16.csv", "progress,iteration\n10,100\n20,200\n")(toy)
    _plain("validation-64.csv", "iteration,progress\n40,10\n80,20\n")(toy)
    _plain(
        "placements.csv",
        "placement,local_bsz,step_time,sync_time\n1,8,0.1,0.01\n1,16,0.2,0.01\n2,8,0.15,0.05\n"
        "2,16,0.25,0.05\n11,8,0.9,0.5\n11,16,1.0,0.5\n44,8,0.3,0.2\n44,16,0.4,0.2\n",
    )(toy)
    _plain(
        "scalability.csv",
        "local_bsz,step_time,sync_time,num_nodes,num_replicas\n8,0.3,0.1,1,4\n16,0.4,0.1,1,4\n",
    )(toy)
    return _plain("workload-1.csv", SIA)(folder)


def elastic_sia(folder: Path) -> Path:
    """The same with gradients, and with a second type of GPU that is twice as fast."""
    path = sia(folder)
    toy = folder / "traces" / "toy"
    for size, steps in ((16, 100), (64, 40)):
        _plain(
            f"validation-{size}.csv",
            f"progress,iteration,grad_sqr,grad_var\n100,{steps},1.0,0.0\n300,{2 * steps},1.0,3.0\n",
        )(toy)
    _plain(
        "placements-dgx-ext.csv",
        "local_bsz,placement,step_time,sync_time\n8,1,0.05,0.0\n16,1,0.1,0.0\n32,1,0.2,0.0\n",
    )(toy)
    return path


def pai(folder: Path) -> Path:
    tables = folder / "pai"
    tables.mkdir(exist_ok=True)
    _plain("pai_job_table.header", "job_name,inst_id,user,status,start_time,end_time\n")(tables)
    _plain(
        "pai_job_table.csv",
        "j1,i1,u1,Terminated,1000.0,1500.0\nj2,i2,u2,Failed,1001.0,\nj3,i3,u2,Terminated,2.0,3.0\n"
        "j4,i4,u2,Running,2.0,\nj5,i5,u2,Waiting,,\nj6,i6,u1,Terminated,1002.0,1500.0\n",
    )(tables)
    _plain(
        "pai_task_table.csv",
        "j1,ps,1.0,Terminated,1010.0,1490.0,600.0,29.3,,MISC\n"
        "j1,worker,3.0,Terminated,1020.0,1500.0,600.0,29.3,50.0,T4\n"
        "j2,worker,2.0,Failed,1010.0,1070.0,600.0,29.3,100.0,V100\n"
        "j3,worker,2.0,Terminated,1010.0,1070.0,600.0,29.3,0.0,\n"
        "j4,worker,2.0,Running,1010.0,,600.0,29.3,100.0,V100\n"
        "j5,worker,2.0,Waiting,,,600.0,29.3,100.0,V100\nj6,cut\n",
    )(tables)
    _plain("pai_group_tag_table.csv", "i1,u1,T4,g,bert\ni2,u2,,g,\n")(tables)
    return tables


def journal(folder: Path) -> Path:
    path = folder / "run.jsonl"
    arguments = ["simulate", "generated:jobs=6,min_hours=0.2,max_hours=0.4", "--gpus", "8"]
    result = CliRunner().invoke(app, [*arguments, "-p", "fifo", "--journal", str(path)])
    assert result.exit_code == 0, result.output
    return path


def database(folder: Path) -> Path:
    state = folder / "state"
    state.mkdir(exist_ok=True)
    store = Store(f"sqlite:///{state / 'shockwave.db'}", Archive(state / "archive"))
    events = [
        replace(event, submission="{}") if isinstance(event, JobSubmitted) else event
        for event in read_journal(journal(folder))
    ]
    store.append(1, events, 0, [])
    store.close()
    return state


MAKERS: dict[str, Callable[[Path], Path]] = {
    "gavel": gavel,
    "sia": sia,
    "philly": philly,
    "philly-csv": _plain("philly.csv", PHILLY_CSV),
    "helios": _plain("cluster_log.csv", HELIOS),
    "acme": _plain("trace_seren.csv", SEREN),
    "alibaba-2020": pai,
    "alibaba-2023": _plain("pods.csv", ALIBABA_2023),
    "alibaba-2026": _plain("job_info_df.csv", ALIBABA_2026),
    "slurm": _plain("history.txt", SLURM),
    "journal": journal,
    "database": database,
}
