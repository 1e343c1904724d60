"""Contract suites: what every policy, predictor, trace format and executor must do.

Subclass a suite in your own tests, say how to make the thing under test, and pytest runs
the whole contract against it::

    from shockwave.testing import PolicyContract

    class TestMyPolicy(PolicyContract):
        def make(self):
            return MyPolicy()
"""

from shockwave.testing.executors import ExecutorContract
from shockwave.testing.policies import PolicyContract
from shockwave.testing.predictors import PredictorContract
from shockwave.testing.traces import TraceFormatContract

__all__ = ["ExecutorContract", "PolicyContract", "PredictorContract", "TraceFormatContract"]
