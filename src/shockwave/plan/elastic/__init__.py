"""The market for GPUs of several types: every job picks one option, one price per type clears it.

:mod:`shockwave.plan.elastic.market` states it, ``prices`` finds what GPUs cost, ``rounding``
gives whole gangs to the jobs, ``sale`` puts both together with a bound, ``ilp`` is the same
program in HiGHS, and ``worth`` says what an option is worth to a job.
"""
