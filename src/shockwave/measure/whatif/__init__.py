"""What if: the present state rolled forward in the simulator, as it is and with a change.

Every sample is one future of the whole cluster: what each job will still do, drawn from what is
predicted of it, and jobs that will come, by habit. Each is rolled forward twice, so that before
and after differ by the change and by nothing else.
"""

from shockwave.measure.whatif.answer import Answer, Effect, Figure, Interval
from shockwave.measure.whatif.ask import Limits, TooSlowError, ask
from shockwave.measure.whatif.changes import (
    Change,
    DrainNode,
    ExtraJob,
    MoreGpus,
    OtherPolicy,
    TenantTerms,
    TenantWeight,
)

__all__ = [
    "Answer",
    "Change",
    "DrainNode",
    "Effect",
    "ExtraJob",
    "Figure",
    "Interval",
    "Limits",
    "MoreGpus",
    "OtherPolicy",
    "TenantTerms",
    "TenantWeight",
    "TooSlowError",
    "ask",
]
