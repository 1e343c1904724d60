"""What a job, its supervisors, the executors and the server say to each other.

They speak through files in the job's folder and through the environment of its ranks, and
``docs/protocol.md`` describes both for jobs in any language. The package needs nothing but the
standard library, because it is shipped to the nodes together with the supervisor.
"""

VERSION = 1  # in every file that is written whole, and in the environment of every rank
