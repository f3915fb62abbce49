"""A process that is a worker and nothing else."""

from __future__ import annotations

import gc

_OFTEN = (100_000, 50, 100)


def tune_collector() -> None:
    """Let the garbage collector look less often, and not at all at what is there to stay.

    Runs are many small objects that point at one another. A third of a busy worker's time goes into
    looking for garbage among them, and among all the code that was loaded before. Only a process
    that is a worker and nothing else should be tuned like this.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_OFTEN)
