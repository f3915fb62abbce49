"""The tables of pipelines in a simulated world, as the witness reads them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.codec import decode
from onward.core.run import TERMINAL
from onward.engine.payloads import unpack
from tests.simulation.simulator.letters import DONE, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Instant
    from onward.store.database import Tx

STATEMENTS = {
    "witness_handlers": """
        SELECT handler, key, pipeline, kind, lane, published, seen, wake_at, state, blocked_by,
               failures, removed
        FROM onward_handler ORDER BY handler, key""",
    "witness_deliveries": """
        SELECT handler, event, topic, seq, key, state, run, attempt, replays, releases, reason
        FROM onward_delivery ORDER BY handler, topic, seq""",
    "witness_events": """
        SELECT uid, topic, seq, message, key, payload, run FROM onward_event ORDER BY topic, seq""",
    "witness_subscriptions": """
        SELECT topic, handler, since, consumed, skipped FROM onward_subscription
        ORDER BY topic, handler""",
    "witness_handler_runs": """
        SELECT uid, kind, handler, handler_key, lane, state, phase, follows, newest FROM onward_run
        WHERE handler IS NOT NULL ORDER BY uid""",
    "witness_paused": "SELECT name FROM onward_pipeline WHERE paused = 1 ORDER BY name",
    "witness_causes": "SELECT kind, target, input FROM onward_cause ORDER BY kind, target, input",
    "witness_inputs": "SELECT uid FROM onward_input ORDER BY uid",
}


class HandlerSeen(NamedTuple):
    """A handler's row, or that of one key of it."""

    handler: str
    key: str
    pipeline: str
    kind: str
    lane: str
    published: int
    seen: int
    wake_at: Instant | None
    state: bytes | None
    blocked_by: str | None
    failures: int
    removed: int

    @property
    def saved(self) -> int:
        """The number that is its state."""
        return 0 if self.state is None else int(decode(unpack(self.state)))


class DeliverySeen(NamedTuple):
    """An event as a consumer sees it."""

    handler: str
    event: str
    topic: str
    seq: int
    key: str
    state: str
    run: str | None
    attempt: int
    replays: int
    releases: int
    reason: str | None


class EventSeen(NamedTuple):
    """An event."""

    uid: str
    topic: str
    seq: int
    message: str
    key: str
    payload: bytes
    run: str | None

    @property
    def is_by_next(self) -> bool:
        """Whether it was published by the run of a consumer."""
        return self.topic in (ROWS.name, DONE.name)

    @property
    def said(self) -> dict[str, Any]:
        """What its publisher says of it."""
        return decode(unpack(self.payload))  # type: ignore[no-any-return]


class SubscriptionSeen(NamedTuple):
    """What a consumer has consumed and skipped of a topic."""

    topic: str
    handler: str
    since: int
    consumed: int
    skipped: int


class HandlerRunSeen(NamedTuple):
    """A run of a handler."""

    uid: str
    kind: str
    handler: str
    key: str
    lane: str
    state: str
    phase: str | None
    follows: str | None
    newest: int

    @property
    def is_open(self) -> bool:
        return self.state not in TERMINAL


class PostView:
    """The tables of pipelines at one moment."""

    def __init__(self) -> None:
        self.handlers: dict[tuple[str, str], HandlerSeen] = {}
        self.deliveries: dict[tuple[str, str], DeliverySeen] = {}
        self.events: dict[str, EventSeen] = {}
        self.subscriptions: list[SubscriptionSeen] = []
        self.runs: dict[str, HandlerRunSeen] = {}
        self.paused: set[str] = set()
        self.causes: dict[tuple[str, str], set[str]] = {}
        self.inputs: list[str] = []

    def rows(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Yield every row that the trace shows, with a key that is its own."""
        yield from ((("handler", *place), row) for place, row in self.handlers.items())
        yield from ((("delivery", *place), row) for place, row in self.deliveries.items())
        yield from ((("event", uid), row) for uid, row in self.events.items())

    @cached_property
    def pending(self) -> dict[tuple[str, str], set[tuple[str, int]]]:
        """What is pending for each handler and key: events with their attempts."""
        found: defaultdict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
        for each in self.deliveries.values():
            if each.state == "pending":
                found[each.handler, each.key].add((each.event, each.attempt))
        return found

    def chain(self, uid: str) -> Iterator[str]:
        """Yield a run and all that it follows."""
        at: str | None = uid
        while at is not None and at in self.runs:
            yield at
            at = self.runs[at].follows


async def read_post(tx: Tx) -> PostView:
    """Return the pipelines of a database."""
    view = PostView()
    for row in await tx.fetch("witness_handlers"):
        view.handlers[row[0], row[1]] = HandlerSeen._make(row)
    for row in await tx.fetch("witness_deliveries"):
        view.deliveries[row[0], row[1]] = DeliverySeen._make(row)
    view.events = {row[0]: EventSeen._make(row) for row in await tx.fetch("witness_events")}
    view.subscriptions = [
        SubscriptionSeen._make(row) for row in await tx.fetch("witness_subscriptions")
    ]
    view.runs = {
        row[0]: HandlerRunSeen._make(row) for row in await tx.fetch("witness_handler_runs")
    }
    view.paused = {row[0] for row in await tx.fetch("witness_paused")}
    for kind, target, cause in await tx.fetch("witness_causes"):
        view.causes.setdefault((kind, target), set()).add(cause)
    view.inputs = [row[0] for row in await tx.fetch("witness_inputs")]
    return view
