"""`onward worker --metrics`: what a worker does and what its store holds, for Prometheus."""
# ruff: noqa: ARG002 - a metric receives everything, whether or not it counts it

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.errors import BadInput, OnwardError
from onward.telemetry import Metrics
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prometheus_client import CollectorRegistry

    from onward.engine.stats import Stats
    from onward.sdk.app import App

REFRESH_SECONDS = 5.0
"""How often the gauges of the store are read."""


class SeriesFamily(NamedTuple):
    """A family of time series: its type, its labels and its help text."""

    kind: str
    labels: tuple[str, ...]
    help: str


_RUN = ("workflow", "queue")

FAMILIES = {
    "onward_runs_started_total": SeriesFamily("counter", _RUN, "Runs that this process started"),
    "onward_runs_claimed_total": SeriesFamily(
        "counter", _RUN, "Claims of runs, including repeated ones"
    ),
    "onward_runs_parked_total": SeriesFamily(
        "counter",
        (*_RUN, "state"),
        "Runs that left the worker because they were waiting, paused or released",
    ),
    "onward_runs_ended_total": SeriesFamily("counter", (*_RUN, "state"), "Runs that ended"),
    "onward_run_seconds": SeriesFamily("histogram", _RUN, "Time from start to end, waits included"),
    "onward_runs_lost_total": SeriesFamily(
        "counter", _RUN, "Runs that the worker lost to another worker"
    ),
    "onward_step_seconds": SeriesFamily(
        "histogram", ("workflow", "step", "outcome"), "Duration of step attempts"
    ),
    "onward_cache_reads_total": SeriesFamily(
        "counter", ("workflow", "step", "outcome"), "Reads of cached results: hit or miss"
    ),
    "onward_queue_lag_seconds": SeriesFamily(
        "histogram", ("queue",), "Time from becoming claimable to the first claim"
    ),
    "onward_claim_seconds": SeriesFamily("histogram", (), "Duration of claims"),
    "onward_commit_seconds": SeriesFamily("histogram", (), "Duration of group commits"),
    "onward_maintenance_seconds": SeriesFamily("histogram", (), "Duration of maintenance rounds"),
    "onward_lease_renewals_total": SeriesFamily("counter", (), "Renewals of the worker's lease"),
    "onward_leases_lost_total": SeriesFamily("counter", (), "Leases that the worker lost"),
    "onward_open_runs": SeriesFamily("gauge", ("state",), "Open runs in the store"),
    "onward_queue_ready": SeriesFamily(
        "gauge", ("queue",), "Runs in the store that are ready to be claimed"
    ),
    "onward_queue_age_seconds": SeriesFamily(
        "gauge", ("queue",), "Age of the oldest run that is ready to be claimed"
    ),
    "onward_open_effects": SeriesFamily("gauge", ("state",), "Unsettled effects in the store"),
    "onward_workers": SeriesFamily("gauge", (), "Live workers that use the store"),
    "onward_outbox": SeriesFamily("gauge", (), "Undelivered messages from callers' transactions"),
    "onward_schedule_lag_seconds": SeriesFamily(
        "gauge", (), "Age of the oldest schedule slot that is due and has no disposition"
    ),
}
"""Everything that the endpoint offers, by name."""


class PrometheusMetrics(Metrics):
    """Counts what a worker does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        import prometheus_client

        makers = {
            "counter": prometheus_client.Counter,
            "gauge": prometheus_client.Gauge,
            "histogram": prometheus_client.Histogram,
        }
        self._families: dict[str, Any] = {
            name: makers[family.kind](name, family.help, family.labels, registry=registry)
            for name, family in FAMILIES.items()
        }

    def _of(self, name: str, **labels: str) -> Any:
        family = self._families[name]
        return family.labels(**labels) if labels else family

    def run_started(self, *, workflow: str, queue: str) -> None:
        self._of("onward_runs_started_total", workflow=workflow, queue=queue).inc()

    def run_claimed(self, *, workflow: str, queue: str) -> None:
        self._of("onward_runs_claimed_total", workflow=workflow, queue=queue).inc()

    def run_parked(
        self, *, workflow: str, queue: str, state: str, reason: str | None, seconds: float
    ) -> None:
        self._of("onward_runs_parked_total", workflow=workflow, queue=queue, state=state).inc()

    def run_ended(
        self, *, workflow: str, queue: str, state: str, reason: str | None, seconds: float
    ) -> None:
        self._of("onward_runs_ended_total", workflow=workflow, queue=queue, state=state).inc()
        self._of("onward_run_seconds", workflow=workflow, queue=queue).observe(seconds)

    def run_lost(self, *, workflow: str, queue: str) -> None:
        self._of("onward_runs_lost_total", workflow=workflow, queue=queue).inc()

    def step_ended(
        self, *, workflow: str, step: str, outcome: str, retrying: bool, seconds: float
    ) -> None:
        labels = {"workflow": workflow, "step": step, "outcome": outcome}
        self._of("onward_step_seconds", **labels).observe(seconds)

    def cache_read(self, *, workflow: str, step: str, hit: bool) -> None:
        labels = {"workflow": workflow, "step": step, "outcome": "hit" if hit else "miss"}
        self._of("onward_cache_reads_total", **labels).inc()

    def queue_lag(self, *, queue: str, seconds: float) -> None:
        self._of("onward_queue_lag_seconds", queue=queue).observe(seconds)

    def claim_took(self, *, worker: str, runs: int, seconds: float) -> None:
        self._of("onward_claim_seconds").observe(seconds)

    def commit_took(self, *, worker: str, commits: int, seconds: float) -> None:
        self._of("onward_commit_seconds").observe(seconds)

    def maintenance_took(self, *, worker: str, seconds: float) -> None:
        self._of("onward_maintenance_seconds").observe(seconds)

    def lease_renewed(self, *, worker: str, kept: bool, seconds: float) -> None:
        self._of("onward_lease_renewals_total" if kept else "onward_leases_lost_total").inc()

    def observe(self, stats: Stats) -> None:
        """Set the gauges of the store."""
        self._set("onward_open_runs", "state", stats.runs)
        self._set("onward_open_effects", "state", stats.effects)
        self._set("onward_queue_ready", "queue", {each.queue: each.ready for each in stats.queues})
        ages = {each.queue: each.age_seconds for each in stats.queues}
        self._set("onward_queue_age_seconds", "queue", ages)
        self._of("onward_workers").set(stats.workers)
        self._of("onward_outbox").set(stats.outbox)
        self._of("onward_schedule_lag_seconds").set(stats.schedule_lag_seconds)

    def _set(self, name: str, label: str, values: Any) -> None:
        family = self._families[name]
        family.clear()  # a queue that is empty now is not in what was read
        for value, count in values.items():
            family.labels(**{label: value}).set(count)


def parse_address(given: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT` or `:PORT`.

    Raises:
        BadInput: it is none.
    """
    host, colon, port = given.rpartition(":")
    if not (colon and port.isdecimal() and 0 <= int(port) < 2**16):
        raise BadInput(
            f"--metrics {given}", "is not an address", "Use HOST:PORT or :PORT, such as :9100"
        )
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - `:9100` asks for all interfaces


@asynccontextmanager
async def metrics_endpoint(app: App, address: str) -> AsyncIterator[int]:
    """Serve metrics over HTTP; the body is given the port."""
    host, port = parse_address(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ModuleNotFoundError:
        raise BadInput(
            "--metrics",
            "needs the prometheus-client package",
            "Install it: pip install 'onward[metrics]'",
        ) from None
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    app._observer.add_metrics(metrics)
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise BadInput(
            f"--metrics {address}", f"cannot be used ({error})", "Use another address"
        ) from None
    emit("worker.metrics", address=f"{host}:{server.server_port}")
    refreshing = asyncio.ensure_future(_refresh(app, metrics))
    try:
        yield int(server.server_port)
    finally:
        refreshing.cancel()
        server.shutdown()
        server.server_close()


async def _refresh(app: App, metrics: PrometheusMetrics) -> None:
    while True:
        with suppress(OnwardError):  # while the store is away, the last values stay
            metrics.observe(await app._engine.stats())
        await asyncio.sleep(REFRESH_SECONDS)
