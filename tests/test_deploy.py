"""What lies in deploy/ is what the program and systemd understand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from shockwave.server.config import load_config
from shockwave.server.settings_catalogue import ENVIRONMENT_PREFIX, known_settings

SYSTEMD = Path(__file__).resolve().parents[1] / "deploy" / "systemd"


def unit() -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in (SYSTEMD / "shockwave.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def test_the_settings_of_the_service_are_valid() -> None:
    config = load_config(SYSTEMD / "shockwave.toml", environment={}).config
    assert config.state_dir == Path("/var/lib") / unit()["StateDirectory"][0]


@pytest.mark.parametrize("executor", ["slurm", "ray"])
def test_so_are_those_that_are_commented_out(executor: str, tmp_path: Path) -> None:
    text = (SYSTEMD / "shockwave.toml").read_text().replace('executor = "local"', "# here", 1)
    _, begin, rest = text.partition(f'# executor = "{executor}"\n')
    block = rest.split("\n\n")[0].replace("# ", "")
    file = tmp_path / "shockwave.toml"
    file.write_text(text.replace(begin, begin.removeprefix("# ")) + "\n" + block)
    config = load_config(file, environment={}).config
    assert (config.executor, bool(config.site_options.given())) == (executor, True)


def test_the_variables_of_the_service_are_settings() -> None:
    named = [
        line.lstrip("#").partition("=")[0]
        for line in (SYSTEMD / "environment").read_text().splitlines()
        if "=" in line and not line.startswith("# ")
    ]
    assert named
    for name in named:
        field = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        assert field in known_settings() or not name.startswith(ENVIRONMENT_PREFIX)


def test_jobs_outlive_the_service() -> None:
    settings = unit()
    assert settings["KillMode"] == ["process"]
    assert settings["OOMPolicy"] == ["continue"]
    assert settings["Restart"] == ["always"]
    assert not {"PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectClock"} & set(settings)


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze") or pytest.skip("there is no systemd here")
    text = (SYSTEMD / "shockwave.service").read_text()
    program = unit()["ExecStart"][0].split()[0]
    copy = tmp_path / "shockwave.service"
    copy.write_text(text.replace(program, "/bin/true"))
    done = subprocess.run(
        [verify, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if "shockwave.service" in line]
    assert complaints == []
