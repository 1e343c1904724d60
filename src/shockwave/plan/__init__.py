"""What should happen: how GPUs are shared out, and why.

There are two planners, and what both use.

* The default policy decides round by round over the whole predicted life of every job:
  ``arrivals`` (who else will come), ``targets``, ``contention`` and ``sharing`` (what a job is
  held against), ``booking`` and ``bids`` (what it needs and offers), ``rundown`` (when it starts).
* ``window/`` is the planner of ``shockwave-nsdi23``: a program over the next rounds, solved by
  prices or exactly.
* Both use ``explain`` (why a job runs or waits); every policy uses ``fitting`` (which gangs fit);
  ``fluid`` (equal shares at every instant) also serves the measurements.
"""
