"""The configuration of a worker: how much it takes on, and how it reaches engine and machine."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.core.instant import DAY, SECOND
from onward.core.lease import LEASE, STALL, STALL_LIMIT
from onward.telemetry.observer import SILENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration
    from onward.core.ports import Clock, Randomness, Spawn
    from onward.engine.worker_engine import WorkerEngine, WorkerHooks
    from onward.model.pipelines import PipelineSpec
    from onward.model.schedules import ScheduleSpec
    from onward.telemetry.observer import Observer

LEASE_ALONE: Duration = 36_500 * DAY
"""The lease of a worker that cannot die without the other workers: they are one process."""

DRAIN: Duration = 10 * SECOND
"""How long a worker that leaves waits for steps that run."""


@dataclass(frozen=True, slots=True)
class Options:
    """How much a worker takes on."""

    queues: tuple[str, ...] = ("default",)
    slots: int = 100
    threads: int = 32
    warm: int = 1000
    version: str | None = None
    tags: tuple[str, ...] = ()
    lease: Duration = LEASE
    drain: Duration = DRAIN
    stall: Duration = STALL
    stall_limit: Duration = STALL_LIMIT
    debug_allow: tuple[str, ...] | None = None
    """The modules in which bodies may call everything; None: bodies are not checked."""
    schedules: tuple[ScheduleSpec, ...] = ()
    """The schedules that the code of the worker declares."""
    pipelines: tuple[PipelineSpec, ...] = ()
    """The pipelines that the code of the worker declares."""
    is_alone: bool = False
    """Whether no other process can exist, so that no hint gets lost and no worker dies alone.

    Then a worker need not poll every second, nor renew its lease every few: in virtual time a
    month has millions of those.
    """


@dataclass(frozen=True, slots=True)
class Ports:
    """How a worker reaches its engine and the machine; a simulation brings its own."""

    clock: Clock
    randomness: Randomness
    spawn: Spawn | None
    connect: Callable[[str, WorkerHooks], WorkerEngine]
    """Returns the engine for a worker of this id."""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    observer: Observer = SILENT
    store: str = ""
    """The address of the store for logs, without its password."""
