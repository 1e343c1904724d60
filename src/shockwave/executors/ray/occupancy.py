"""How many GPUs of a node others hold, from what Ray says of its resources.

What a placement group reserves on a node is a resource of its own there, named after the group,
and so what is ours can be told from what is not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

_RESERVED = "GPU_group_"  # and the group's id: the GPUs that it has on a node


def occupancy(
    gpus: int,
    total: Mapping[str, float],
    free: Mapping[str, float],
    ours: Collection[str],
    awaited: Collection[str],
) -> tuple[int, bool]:
    """GPUs that others hold, a part of one counted as a whole; and whether that is settled.

    It is not while a group of ours that is ``awaited`` on the node is not seen there: Ray takes
    the GPUs first and says for whom later.

    >>> occupancy(4, {"GPU": 4, "GPU_group_a": 2}, {"GPU": 0.5}, ours={"a"}, awaited={"a"})
    (2, True)
    >>> occupancy(4, {"GPU": 4}, {"GPU": 2}, ours={"a"}, awaited={"a"})
    (2, False)
    """
    if "GPU" not in total:  # the node has not reported yet
        return 0, False
    mine = sum(count for name, count in total.items() if name.removeprefix(_RESERVED) in ours)
    taken = gpus - math.floor(free.get("GPU", 0.0)) - round(mine)
    return max(taken, 0), all(_RESERVED + group in total for group in awaited)
