"""The settings of ``shockwave serve``: what they mean, what they default to, what fits together.

How they are spelled and shown is said in :mod:`shockwave.server.settings_catalogue`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shockwave.engine.retry import Retries
from shockwave.engine.rounds import Rounds
from shockwave.engine.watch import Silence
from shockwave.executors.live import EXECUTORS
from shockwave.executors.options import SiteOptions
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.events import Starts
from shockwave.model.registry import Registry
from shockwave.policies.registry import POLICIES
from shockwave.predict.registry import PREDICTORS
from shockwave.server.addresses import Target
from shockwave.server.places import default_socket, default_state_dir
from shockwave.server.slots import SlotsSetting, nodes_of, types_in
from shockwave.server.tenant_settings import Names, TenantName, TenantSettings, listed
from shockwave.server.tokens import hash_token

OPTIONS = "site_options"  # the one field that is not a setting, but holds an executor's
DATABASE_FILE = "shockwave.db"
_SHORTEST_TOKEN = 16

Targets = Annotated[tuple[Target, ...], BeforeValidator(listed)]


def _slots_of_this_machine(said: dict[str, Any]) -> int:
    """The GPUs that the executor may use here; one emulated slot where there is none."""
    options = said.get(OPTIONS)
    return max(1, options.gpus_here()) if isinstance(options, SiteOptions) else 1


class ServeConfig(BaseModel):
    """How a live scheduler runs. The text below each setting is its documentation."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    state_dir: Path = Field(default_factory=default_state_dir)
    """Where everything is kept, jobs and their logs included. Without it, ``shockwave`` below
    ``$XDG_STATE_HOME`` or ``~/.local/state``; as root, ``/var/lib/shockwave``."""
    database_url: str | None = None
    """``postgresql://...`` Without it, SQLite in the state directory."""
    snapshot_events: int = Field(10_000, ge=1)
    """Events after which the state is saved, so that a restart need not read all of them."""
    journal_days: float = Field(30.0, ge=0)
    """Days after which events move to compressed files in the state directory."""

    job_files_days: float | None = Field(None, ge=0)
    """Days after which the files of a job that has ended are removed, logs and checkpoints
    included. Without it, they are kept."""
    standby: bool = False
    """While another scheduler uses the state directory, wait, and take over when it has ended."""

    socket: Path | None = None
    """The Unix socket to listen on. Without it, ``shockwave.sock`` in the state directory; of
    ``/var/lib/shockwave``, ``/run/shockwave/shockwave.sock``."""
    port: int | None = Field(None, ge=0, le=65_535)
    """TCP port to listen on as well, 0 for any free one. Whoever comes in there needs a token."""
    host: str = "127.0.0.1"
    """Address of the TCP port."""
    token: SecretStr | None = None
    """The operator's token. From the environment only: neither a file nor the list of processes
    should show it."""
    token_sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the operator's token, as ``shockwave token`` prints it."""
    max_body_bytes: int = Field(1 << 20, ge=1024)
    """Bytes that the body of a request may have."""

    operators: Names = ()
    """Users, and groups as ``@group``, who may do everything with all jobs. So may root, and the
    user that the scheduler runs as."""
    allow_users: Names = ()
    """Users, and groups as ``@group``, who may submit. Without it, only operators where jobs run as
    the scheduler's own user, and everybody where they run as their owners."""
    private_queue: bool = False
    """Show nothing of others' jobs; otherwise everybody sees that they are there, and no more."""
    tenants: dict[TenantName, TenantSettings] = Field(default_factory=dict)
    """Tables ``[tenants.NAME]``: whose jobs are this tenant's (``users``, a list of users and
    ``@groups``), the ``weight`` that they may have, and what they were promised; by type of GPU in
    ``[tenants.NAME.types.A100]``. Who is in none is a tenant of their own."""

    policy: str = "shockwave"
    """Who decides: a policy by name, or a class as ``my_package:MyPolicy``."""
    predictor: str | None = None
    """Who predicts, by name or as ``my_package:MyPredictor``. Without it, the one that the policy
    is meant for."""
    seed: int = Field(0, ge=0)
    """Seed of policies that sample."""
    round_seconds: float = Field(120.0, gt=0)
    """Seconds that a round lasts."""
    restart_seconds: float = Field(20.0, ge=0)
    """Seconds that a start costs a job. Less than a round."""
    starts: Starts = Starts.IMMEDIATE
    """When jobs start on free GPUs: ``immediate``, or at the beginning of ``rounds`` only."""

    what_if_seconds: float = Field(60.0, gt=0)
    """Seconds of a processor that an answer to ``shockwave what-if`` may take; on a busy machine up
    to four times as many on the clock."""
    what_if_memory_mb: int = Field(4096, ge=512)
    """MiB of memory that it may take."""
    what_if_at_once: int = Field(1, ge=0)
    """Questions that are answered at once. Each has a process of its own; 0 for none."""

    executor: str = "local"
    """Where jobs run: an executor by name, or a class as ``my_package:MyExecutor``."""
    site_options: SerializeAsAny[SiteOptions] = Field(default_factory=dict, validate_default=True)
    """The options of the executor."""
    slots: SlotsSetting = Field(default_factory=_slots_of_this_machine)
    """GPU slots, where the executor does not know its GPUs itself: a number, or types of GPUs and
    the number of each, such as ``A100:2,T4:4``. Without it, the GPUs of this machine, or one slot
    if it has none."""
    gpus_per_node: int | None = Field(None, ge=1)
    """Emulate several nodes with this many slots each. Without it, all slots of a type are on one
    node."""
    cpu_jobs: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=0)
    """Jobs without GPUs (``--gpus 0``) that run at once at most. Without it, one for each
    processor of this machine."""
    grace_seconds: float = Field(30.0, ge=0)
    """Seconds that a job has to save before it is killed."""
    start_seconds: float = Field(60.0, gt=0)
    """Seconds that a cluster may take to start a job before it is withdrawn."""
    stop_jobs: bool = False
    """At shutdown, stop running jobs. Otherwise they run on and are found again at the next
    start."""

    most_crashes: int = Field(3, ge=1)
    """Crashes in a row without progress after which a job is given up."""
    most_failed_starts: int = Field(8, ge=1)
    """Starts in a row that came to nothing, after which a job is given up."""
    first_back_off_seconds: float = Field(10.0, ge=0)
    """Seconds that a job waits after a crash or a start that came to nothing, twice as many after
    the next one."""
    longest_back_off_seconds: float = Field(600.0, ge=0)
    """Seconds that a job waits at most after a crash or a start that came to nothing."""
    hang_epochs: float = Field(10.0, ge=1)
    """A job that has reported before and then says nothing for so many times its usual epoch is
    taken for hanging ..."""
    hang_seconds: float = Field(300.0, ge=0)
    """... but not before so many seconds. What becomes of it, the job says (``--on-hang``)."""

    @field_validator("state_dir", "socket")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else Path(os.path.abspath(value.expanduser()))

    notify: Targets = ()
    """Who is told about all jobs: ``https://...`` for a signed request, or ``mailto:...``."""
    notify_users: dict[str, Targets] = Field(default_factory=dict)
    """A table ``[notify_users]``: who is told about a user's jobs, where those do not say it."""
    notify_key: SecretStr | None = None
    """What requests are signed with. From the environment only. Without it, a key of its own in
    ``notifications.key`` in the state directory."""
    smtp: str | None = Field(None, pattern=r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?$")
    """``HOST`` or ``HOST:PORT`` of the server that takes mail. Without it, no mail is sent."""
    smtp_tls: bool = False
    """Encrypt the connection to it with STARTTLS."""
    smtp_user: str | None = None
    """Whom to sign in as there."""
    smtp_password: SecretStr | None = None
    """The password for that. From the environment only."""
    mail_from: str | None = None
    """The sender of mails. Without it, ``shockwave`` at the mail server's host."""

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        _loaded(POLICIES, value)
        return value

    @field_validator("executor")
    @classmethod
    def _known_executor(cls, value: str) -> str:
        _loaded(EXECUTORS, value)
        return value

    @field_validator("predictor")
    @classmethod
    def _known_predictor(cls, value: str | None) -> str | None:
        if value is not None and _loaded(PREDICTORS, value).clairvoyant:
            usable = [name for name in PREDICTORS.names() if name != value]
            raise ValueError(f"no such predictor for live jobs; there are {', '.join(usable)}")
        return value

    @field_validator("token")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < _SHORTEST_TOKEN:
            raise ValueError(f"a token has at least {_SHORTEST_TOKEN} characters")
        return value

    @field_validator(OPTIONS, mode="before")
    @classmethod
    def _of_the_executor(cls, value: Any, info: ValidationInfo) -> SiteOptions:
        if "executor" not in info.data:
            return SiteOptions()  # the executor is unknown, which is an error already
        return EXECUTORS.load(info.data["executor"]).SiteOptions.model_validate(value)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.restart_seconds >= self.round_seconds:
            raise ValueError(
                f"restart_seconds ({self.restart_seconds:g}) must be below round_seconds "
                f"({self.round_seconds:g}), or no job would ever make progress"
            )
        if self.discovers_nodes:
            for name in ("slots", "gpus_per_node"):
                if name in self.model_fields_set and getattr(self, name) is not None:
                    knows = self.site_options.node_source()
                    raise ValueError(f"{name} is not for this executor: {knows} knows its GPUs")
        if self.allow_users and os.geteuid() != 0 and self.socket_path.parent == self.state_dir:
            raise ValueError(
                "allow_users lets others in, but nobody else can reach a socket in the state "
                "directory: set socket, for instance to /tmp/shockwave/shockwave.sock"
            )
        return self

    @property
    def socket_path(self) -> Path:
        """The Unix socket that is the first door."""
        return default_socket(self.state_dir) if self.socket is None else self.socket

    @property
    def discovers_nodes(self) -> bool:
        """Whether nodes come from the executor, not from these settings."""
        return self.site_options.node_source() is not None

    @property
    def token_hash(self) -> str | None:
        """The SHA-256 of the operator's token; None where there is none."""
        return (
            self.token_sha256 if self.token is None else hash_token(self.token.get_secret_value())
        )

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.state_dir / DATABASE_FILE}"

    @property
    def cluster(self) -> Cluster:
        """The nodes that these settings make; none where the executor knows them."""
        if self.discovers_nodes:
            return Cluster(())
        if isinstance(self.slots, str):
            types = Counter(dict(types_in(self.slots)))
        else:
            types = Counter(self.site_options.types_of_slots(self.slots))
        return Cluster(nodes_of(types.items(), self.gpus_per_node))

    @property
    def rounds(self) -> Rounds:
        return Rounds(self.round_seconds, self.restart_seconds)

    @property
    def silence(self) -> Silence:
        return Silence(self.hang_epochs, self.hang_seconds)

    @property
    def retries(self) -> Retries:
        return Retries(
            self.most_crashes,
            self.first_back_off_seconds,
            self.longest_back_off_seconds,
            self.most_failed_starts,
        )


def _loaded(registry: Registry[Any], name: str) -> Any:
    try:
        return registry.load(name)
    except InputError as error:
        said = str(InputError(error.problem, source=error.source, hint=error.hint))
        raise ValueError(said) from error
