"""Settings: the nearest source wins, and a mistake is shown where it was made."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shockwave.executors.ray.options import RaySiteOptions
from shockwave.executors.slurm.options import SlurmSiteOptions
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.server.clock import RealClock
from shockwave.server.config import ServeConfig, load_config
from shockwave.server.execution import site_of
from shockwave.server.settings_catalogue import known_settings
from shockwave.server.settings_page import settings_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def write(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text)
    return path


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, "round_seconds = 60\nslots = 2\nport = 1111\n")
    effective = load_config(
        file,
        flags={"port": 3333, "slots": None},
        environment={"SHOCKWAVE_PORT": "2222", "SHOCKWAVE_SLOTS": "8"},
    )
    config = effective.config
    assert (config.port, config.slots, config.round_seconds) == (3333, 8, 60.0)
    assert config.grace_seconds == ServeConfig.model_fields["grace_seconds"].default
    assert effective.sources["port"] == "--port"
    assert effective.sources["slots"] == "SHOCKWAVE_SLOTS"
    assert effective.sources["round_seconds"] == str(file)
    assert "grace_seconds" not in effective.sources


def test_what_is_printed_can_be_read_back(tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" place'
    printed = load_config(
        flags={"state_dir": odd, "slots": 3, "stop_jobs": True}, environment={}
    ).to_toml()
    again = load_config(write(tmp_path, printed), environment={}).config
    assert (again.state_dir, again.slots, again.stop_jobs) == (odd, 3, True)
    assert tomllib.loads(printed)["round_seconds"] == 120.0
    assert "slots = 3  # --slots" in printed


def test_a_token_is_never_printed() -> None:
    effective = load_config(environment={"SHOCKWAVE_TOKEN": "a-long-secret-token"})
    assert "a-long-secret" not in effective.to_toml()
    assert "a-long-secret" not in repr(effective)
    assert "token is set" in effective.to_toml()


def test_the_file_may_come_from_the_environment_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "slots = 5\n")
    assert load_config(environment={"SHOCKWAVE_CONFIG": str(file)}).config.slots == 5
    (tmp_path / "shockwave.toml").write_text("slots = 6\n")
    monkeypatch.chdir(tmp_path)
    assert load_config(environment={}).config.slots == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slots = 2\nround_second = 3\n", ["line 2, round_second", "Did you mean round_seconds?"]),
        ("slots = 2\n\nround_seconds = 'x'\n", ["line 3, round_seconds", "'x'"]),
        ("slots = = 2\n", ["line 1, column 9", "not TOML"]),
        ("policy = 'best'\n", ["line 1, policy", "no such policy", "las"]),
        ("predictor = 'oracle'\n", ["no such predictor for live jobs", "restatement"]),
        ("restart_seconds = 200\n", ["restart_seconds (200)", "round_seconds (120)"]),
        ("[tenants.a]\nmembers = ['x']\n", ["tenants"]),
        ("operators = 3\n", ["line 1, operators"]),
        ("token = 'short'\n", ["not kept in a file", "token_sha256"]),
        ("token_sha256 = 'short'\n", ["line 1, token_sha256"]),
        ("round_seconds = inf\n", ["line 1, round_seconds"]),
        ("executor = 'slurm'\nslots = 4\n", ["slots is not for this executor", "Slurm knows"]),
        ("executor = 'slurm'\ngpus_per_node = 4\n", ["gpus_per_node is not for this executor"]),
        (
            "executor = 'ray'\nray_address = 'head:6379'\nslots = 4\n",
            ["at ray_address"],
        ),
        ("executor = 'ray'\nray_address = 'nonsense'\n", ["line 2, ray_address", "'nonsense'"]),
        ("ray_address = 'head:6379'\n", ["ray_address is for the executor ray", "is local"]),
        ("executor = 'ray'\nslurm_qos = 'a'\n", ["slurm_qos is for the executor slurm"]),
        ("executor = 'slurm'\nslurm_account = '--uid=0'\n", ["line 2, slurm_account", "one name"]),
        ("executor = 'slurm'\nslurm_python = 'python -c'\n", ["line 2, slurm_python"]),
        ("start_seconds = 0\n", ["line 1, start_seconds"]),
        ("[server]\nport = 3\n", ["line 1, server", "no such setting"]),
    ],
)
def test_a_mistake_in_the_file_is_told_in_one_line(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        load_config(write(tmp_path, text), environment={})
    message = str(error.value)
    assert "\n" not in message
    for part in said:
        assert part in message


def test_a_refused_token_is_not_repeated() -> None:
    with pytest.raises(InputError) as error:
        load_config(environment={"SHOCKWAVE_TOKEN": "short-secret"})
    assert "short-secret" not in str(error.value)


def test_a_mistake_elsewhere_names_its_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^SHOCKWAVE_PORT: .*'70000'"):
        load_config(environment={"SHOCKWAVE_PORT": "70000"})
    with pytest.raises(InputError, match=r"^--slots: "):
        load_config(flags={"slots": 0}, environment={})
    with pytest.raises(InputError, match=r"^slot: there is no such setting.*Did you mean slots"):
        load_config(flags={"slot": 1}, environment={})
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path / "missing.toml", environment={})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        load_config(tmp_path / "binary.toml", environment={})


def test_slots_make_a_cluster() -> None:
    config = load_config(flags={"slots": 6, "gpus_per_node": 4}, environment={}).config
    assert [node.gpus for node in config.cluster.nodes] == [4, 2]
    one = load_config(flags={"slots": 6}, environment={}).config
    assert [node.gpus for node in one.cluster.nodes] == [6]


def test_options_of_an_executor_reach_it(tmp_path: Path) -> None:
    text = """
        executor = "slurm"
        start_seconds = 30
        slurm_partition = "gpu,debug"
        slurm_constraint = "[v100|a100]&ib"
        slurm_cpus_per_gpu = 12
        slurm_python = "/opt/python/bin/python3.11"
    """
    effective = load_config(
        write(tmp_path, text), environment={"SHOCKWAVE_SLURM_ACCOUNT": "vision"}
    )
    site = site_of(effective.config, lambda job: Command(("true",), "/"), 0.0, RealClock(0.0))
    assert site.options == SlurmSiteOptions(
        partition="gpu,debug",
        account="vision",
        constraint="[v100|a100]&ib",
        cpus_per_gpu=12,
        python="/opt/python/bin/python3.11",
    )
    assert (site.start_seconds, site.nodes) == (30.0, ())
    printed = effective.to_toml()
    assert "# slots: the executor knows" in printed
    assert load_config(write(tmp_path, printed), environment={}).config == effective.config


def test_ray_has_the_slots_of_this_machine_unless_it_has_an_address() -> None:
    own = load_config(flags={"executor": "ray", "slots": 4}, environment={}).config
    assert [node.gpus for node in own.cluster.nodes] == [4]
    assert own.site_options == RaySiteOptions()
    other = load_config(
        flags={"executor": "ray", "ray_address": "head:6379"}, environment={}
    ).config
    assert other.cluster.nodes == ()
    assert other.site_options == RaySiteOptions(address="head:6379")


def test_options_of_an_executor_may_stand_in_a_section(tmp_path: Path) -> None:
    text = 'executor = "slurm"\n\n[slurm]\npartition = "gpu"\ncpus_per_gpu = 4\n'
    effective = load_config(
        write(tmp_path, text), flags={"slurm_cpus_per_gpu": "8"}, environment={}
    )
    assert effective.config.site_options == SlurmSiteOptions(partition="gpu", cpus_per_gpu=8)
    assert effective.sources["slurm_partition"] == str(tmp_path / "settings.toml")
    assert effective.sources["slurm_cpus_per_gpu"] == "--slurm-cpus-per-gpu"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slurm]\npartition = 'a'\nqos = '-x'\n", ["line 4, slurm_qos", "one name", "'-x'"]),
        ("[slurm]\npartion = 'a'\n", ["line 3, slurm_partion", "Did you mean slurm_partition?"]),
        ("[ray]\naddress = 'head:6379'\n", ["line 3, ray_address", "but executor is slurm"]),
        ("slurm = 'gpu'\n", ["line 2, slurm", "no such setting"]),
        ("site_options = {partition = 'gpu'}\n", ["line 2, site_options", "no such setting"]),
    ],
)
def test_a_mistake_in_a_section_is_told_at_its_line(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        load_config(write(tmp_path, "executor = 'slurm'\n" + text), environment={})
    for part in said:
        assert part in str(error.value)


def test_an_executor_that_is_not_there_is_told_where_it_was_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1, executor: no such executor.*local, slurm, ray"):
        load_config(write(tmp_path, "executor = 'nope'\nnope_x = 1\n"), environment={})
    with pytest.raises(InputError, match=r"SHOCKWAVE_EXECUTOR: .*cannot be loaded: Module"):
        load_config(environment={"SHOCKWAVE_EXECUTOR": "no_such_module:Mine"})


def test_every_setting_is_described_and_has_its_unit_in_the_name() -> None:
    for setting in known_settings().values():
        assert setting.description.endswith("."), setting.name
        if "econds" in setting.description:
            assert setting.name.endswith("_seconds"), setting.name


def test_the_page_about_settings_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), (
        "write it again: shockwave config --markdown > docs/settings.md"
    )
