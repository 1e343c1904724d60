"""The few pieces of SVG that the charts are made of: escaping, scales, ticks, step paths."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from shockwave.model.view import Floats

_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 1_209_600,
)  # fmt: skip


def escape(text: object) -> str:
    """Text that is safe inside elements and quoted attributes."""
    return html.escape(str(text), quote=True)


def px(value: float) -> str:
    """A coordinate to a tenth of a pixel, as short as possible."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> [duration(s) for s in (0, 45, 90, 1800, 5400, 7200, 180_000)]
    ['0', '45 s', '1 m 30 s', '30 m', '1 h 30 m', '2 h', '2 d 2 h']
    """
    left = round(seconds)
    parts = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0"


@dataclass(frozen=True)
class Scale:
    """Maps ``[low, high]`` to pixels ``[start, stop]``, linearly or by logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.stop - self.start)


def time_ticks(high: float, at_most: int = 8) -> list[float]:
    """Multiples of a step that reads well, from 0 up to ``high`` seconds."""
    step: float = next((s for s in _TIME_STEPS if high / s <= at_most), _TIME_STEPS[-1])
    while high / step > at_most:
        step *= 2
    return [step * k for k in range(math.floor(high / step) + 1)]


def count_ticks(high: float, at_most: int = 4) -> list[float]:
    """Whole numbers from 0 up to ``high``."""
    step = 1
    while high / step > at_most:
        step = _next_nice(step)
    return [float(step * k) for k in range(math.floor(high / step) + 1)]


def _next_nice(step: int) -> int:
    lead = int(str(step)[0])
    return step * 5 // 2 if lead == 2 else step * 2


def ratio_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten within ``[low, high]``."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [lead * 10.0**exponent for exponent in exponents for lead in (1, 2, 5)]
    return [tick for tick in every if low * 0.999 <= tick <= high * 1.001]


def steps(xs: Sequence[float] | Floats, ys: Sequence[float] | Floats) -> str:
    """A path that goes level to each ``x`` and then straight to its ``y``, in pixels."""
    parts = [f"M{px(xs[0])},{px(ys[0])}"]
    last_x, last_y = px(xs[0]), px(ys[0])
    for x, y in zip(xs[1:], ys[1:], strict=True):
        now_x, now_y = px(x), px(y)
        if now_x != last_x:
            parts.append(f"H{now_x}")
        if now_y != last_y:
            parts.append(f"V{now_y}")
        last_x, last_y = now_x, now_y
    return "".join(parts)
