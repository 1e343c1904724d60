"""What can be said about Ray."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from shockwave.executors import options

_ADDRESS = re.compile(r"auto|[^-\s:]\S*:[0-9]{1,5}")


def _of_a_head(address: str) -> str:
    if address.startswith("ray://"):
        raise ValueError(
            "is for Ray's remote clients, which lose their gangs with their connection: run serve "
            "on a machine of the cluster and give HOST:PORT of its head, usually port 6379"
        )
    if _ADDRESS.fullmatch(address) is None:
        raise ValueError("should be HOST:PORT of the head, or auto")
    return address


Address = Annotated[str, AfterValidator(_of_a_head)]


class RaySiteOptions(options.SiteOptions):
    """Which Ray cluster jobs run on."""

    address: Address | None = None
    """HOST:PORT of a Ray cluster's head. Without it, a cluster is started on this machine with as
    many GPUs as there are slots."""

    def node_source(self) -> str | None:
        return None if self.address is None else "the cluster at ray_address"
