"""Inside the job: session, checkpoints, adaptation, and callbacks for frameworks.

Importing this never imports a framework: PyTorch, Lightning and Transformers are imported by
the functions that use them.
"""

from shockwave.train.errors import CheckpointError, Fenced, RankLost
from shockwave.train.session import Session, session

__all__ = ["CheckpointError", "Fenced", "RankLost", "Session", "session"]
