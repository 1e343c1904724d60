"""A command with a Slurm or a Ray cluster around it, on this machine alone.

The daemons are real, the GPUs are not, nothing but loopback is used, and everything ends with
the command. It needs root; Slurm from the distribution's packages (``slurmctld slurmd
slurm-client munge``), or ``pip install ray`` and ``redis-server``.

    python examples/emulated_cluster.py slurm --nodes 4 --gpus 2 -- sinfo
    python examples/emulated_cluster.py ray -- python examples/live_demo.py \\
        --executor ray --ray-address 127.0.0.1:6379
    python examples/emulated_cluster.py slurm          # a shell
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from shockwave.testing.ray_cluster import (
    RayCluster,
    is_isolated,
    isolated,
    why_ray_cannot_run,
)
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], usage="%(prog)s {slurm,ray} [options] [-- command ...]"
    )
    parser.add_argument("engine", choices=["slurm", "ray"])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=4, help="of each node")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    chosen = parser.parse_args(words[:end])
    command = words[end + 1 :] or [os.environ.get("SHELL", "/bin/sh")]
    if chosen.engine == "ray" and not is_isolated():
        problem = why_ray_cannot_run()
        if problem is None:
            return subprocess.call(isolated([sys.executable, *sys.argv]))
        sys.exit(problem)
    if chosen.engine == "slurm" and (problem := why_slurm_cannot_run()) is not None:
        sys.exit(problem)
    with tempfile.TemporaryDirectory(prefix=f"{chosen.engine}-") as folder:
        path = Path(folder) / "c"
        if chosen.engine == "ray":
            with RayCluster(path, nodes=chosen.nodes, gpus=chosen.gpus) as ray:
                return subprocess.call(command, env={**os.environ, "RAY_ADDRESS": ray.address})
        with SlurmCluster(path, nodes=chosen.nodes, gpus=chosen.gpus) as slurm:
            return subprocess.call(command, env={**os.environ, **slurm.environment})


if __name__ == "__main__":
    sys.exit(main())
