"""What can be said about Ray."""

from __future__ import annotations

from pydantic import Field

from shockwave.executors import options

_ADDRESS = r"^(auto|[^-\s:]\S*:[0-9]{1,5})$"


class RaySiteOptions(options.SiteOptions):
    """Which Ray cluster jobs run on."""

    address: str | None = Field(None, pattern=_ADDRESS)
    """HOST:PORT of a Ray cluster's head. Without it, a cluster is started on this machine with as
    many GPUs as there are slots."""

    def node_source(self) -> str | None:
        return None if self.address is None else "the cluster at ray_address"
