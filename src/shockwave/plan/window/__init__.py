"""The window planner of ``shockwave-nsdi23``: Nash social welfare over the next rounds.

``market`` says what rounds are worth to a job, ``program`` states the choice, ``prices`` (with
``envelope``) finds the price that clears it and a bound, ``rounding`` makes whole rounds of it,
``packing``, ``schedule`` and ``improvement`` a schedule, ``planner`` does all of it in order, and
``milp`` solves the same program exactly.
"""
