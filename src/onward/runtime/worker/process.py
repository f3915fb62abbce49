"""A process that is a worker and nothing else."""

from __future__ import annotations

import gc

_OFTEN = (100_000, 50, 100)


def tune_collector() -> None:
    """Let the garbage collector run less often, and never look at objects that stay.

    Runs are many small objects that refer to one another. A busy worker would spend a third of its
    time collecting garbage among them and among all loaded code. Only a process
    that is a worker and nothing else should be tuned like this.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_OFTEN)
