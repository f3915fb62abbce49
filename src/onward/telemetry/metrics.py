"""The seam for metrics: what can be counted and measured, and how a faulty counter does no harm."""
# ruff: noqa: ARG002 - a metric receives everything, whether or not it counts it

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from onward.errors import BadInput
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.telemetry.guard import Guard


class Metrics(Protocol):
    """The counts and durations that Onward reports.

    Subclass it and override the methods you need. The other methods, and those that later releases
    add, do nothing. Methods must be fast, because Onward calls them on the worker's event loop.
    Only `lease_renewed` is called from another thread. An exception in a method is logged once and
    does not affect runs.

    Example:
        >>> class Failures(Metrics):
        ...     def __init__(self) -> None:
        ...         self.count = 0
        ...     def run_ended(self, *, state: str, **about: object) -> None:
        ...         self.count += state == "failed"
        >>> failures = Failures()
        >>> failures.run_claimed(workflow="order", queue="default")
        >>> failures.run_ended(
        ...     workflow="order", queue="default", state="failed", reason="logic", seconds=2.5
        ... )
        >>> failures.count
        1
    """

    def run_started(self, *, workflow: str, queue: str) -> None:
        """Count a run that the app started, unless a run with its id already existed."""
        return

    def run_claimed(self, *, workflow: str, queue: str) -> None:
        """Count a run that a worker claims, when the run starts and whenever it continues."""
        return

    def run_parked(
        self, *, workflow: str, queue: str, state: str, reason: str | None, seconds: float
    ) -> None:
        """Count a run that its worker parked or released, and measure how long the worker had it.

        `state` is `waiting`, `paused`, or `ready` if the worker released the run.
        """
        return

    def run_ended(
        self, *, workflow: str, queue: str, state: str, reason: str | None, seconds: float
    ) -> None:
        """Count a run that has ended, and measure the time since its start, including waits."""
        return

    def run_lost(self, *, workflow: str, queue: str) -> None:
        """Count a run that this worker lost to another worker."""
        return

    def step_ended(
        self, *, workflow: str, step: str, outcome: str, retrying: bool, seconds: float
    ) -> None:
        """Count a step attempt that has ended, and measure how long it took.

        `outcome` is `succeeded`, `failed`, `timed_out` or `cancelled`.
        """
        return

    def cache_read(self, *, workflow: str, step: str, hit: bool) -> None:
        """Count an attempt at a step with `cache=`; `hit` is True if the result was in the cache.

        While the store is unavailable, a read counts as a miss: the step is executed.
        """
        return

    def queue_lag(self, *, queue: str, seconds: float) -> None:
        """Measure how long a run was claimable before a worker claimed it for the first time."""
        return

    def claim_took(self, *, worker: str, runs: int, seconds: float) -> None:
        """Measure one claim, and count the runs that it returned."""
        return

    def commit_took(self, *, worker: str, commits: int, seconds: float) -> None:
        """Measure one group commit, and count the commits in it."""
        return

    def maintenance_took(self, *, worker: str, seconds: float) -> None:
        """Measure one round of maintenance, which a worker performs about once a second."""
        return

    def lease_renewed(self, *, worker: str, kept: bool, seconds: float) -> None:
        """Measure one renewal of a worker's lease; `kept` is False if the lease was lost."""
        return


METRICS = tuple(name for name in vars(Metrics) if not name.startswith("_"))
"""The names of all metrics."""


class _Safe:
    """The user's metrics, wrapped so that no call raises."""

    def __init__(self, metrics: Metrics, guard: Guard) -> None:
        for name in METRICS:
            setattr(self, name, _harmless(getattr(metrics, name), name, guard))


def _harmless(measure: Callable[..., None], name: str, guard: Guard) -> Callable[..., None]:
    def safely(**facts: Any) -> None:
        try:
            measure(**facts)
        except BaseException as error:  # noqa: BLE001 - what the user counts with must not end a run
            raise_interrupt(error)
            guard.failed(name, error)

    return safely


def made_safe(metrics: Metrics, guard: Guard) -> Metrics:
    """Return metrics whose calls raise nothing: errors go to the guard.

    Raises:
        BadInput: a method is missing.
    """
    missing = [name for name in METRICS if not callable(getattr(metrics, name, None))]
    if missing:
        raise BadInput(
            f"metrics of type {type(metrics).__qualname__}",
            f"lack {', '.join(missing)}",
            "Inherit from onward.telemetry.Metrics.",
        )
    return cast("Metrics", _Safe(metrics, guard))


def both(first: Metrics, second: Metrics) -> Metrics:
    """Return metrics that pass each call on to two others."""
    return cast("Metrics", _Both(first, second))


class _Both:
    def __init__(self, first: Metrics, second: Metrics) -> None:
        for name in METRICS:
            setattr(self, name, _each(getattr(first, name), getattr(second, name)))


def _each(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    def measure(**facts: Any) -> None:
        first(**facts)
        second(**facts)

    return measure
