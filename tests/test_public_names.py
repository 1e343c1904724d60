"""The names that others import from the top of the package. Changing one is a decision."""

from __future__ import annotations

import subprocess
import sys

import shockwave

PUBLIC = [
    "Adaptation",
    "Cluster",
    "Decision",
    "Executor",
    "Forecast",
    "InputError",
    "JobSpec",
    "Node",
    "Policy",
    "Predictor",
    "Regime",
    "Rounds",
    "ShockwaveError",
    "TraceFormat",
    "TraceJob",
    "View",
    "__version__",
    "simulate",
]


def test_exactly_these_names_are_public() -> None:
    assert sorted(shockwave.__all__) == PUBLIC
    for name in PUBLIC:
        assert hasattr(shockwave, name)


def test_importing_the_package_stays_light() -> None:
    """Extras and heavy doors are imported where they are used, not by everybody."""
    script = (
        "import sys, shockwave\n"
        "heavy = {'torch', 'ray', 'highspy', 'scipy', 'matplotlib', 'fastapi', 'sqlalchemy',"
        " 'typer', 'pytest', 'hypothesis'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
