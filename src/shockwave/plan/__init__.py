"""What should happen: how GPUs are shared out, and why.

There are two planners, and what both use.

* The default policy decides round by round from sampled futures of all jobs together:
  ``outlook`` makes them (with ``arrivals``: who else will come, ``targets``, ``contention`` and
  ``sharing``: what a job is held against, ``reservation``: when a wide gang starts) and
  ``futures`` holds them; ``stance`` is the index that orders jobs, ``rollout`` rolls it forward,
  ``outcome`` says what that costs, and ``promises`` what people are told of it.
* ``window/`` is the planner of ``shockwave-nsdi23``: a program over the next rounds, solved by
  prices or exactly.
* Both use ``explain`` (why a job runs or waits); every policy uses ``fitting`` (which gangs fit);
  ``fluid`` (equal shares at every instant) also serves the measurements.
"""
