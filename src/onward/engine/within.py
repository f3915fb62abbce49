"""Starts, signals and events in a caller's own transaction: they happen when it commits.

Nothing here awaits anything but the caller's connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import check_id
from onward.core.inbox import MessageKind
from onward.core.run import TERMINAL
from onward.engine.payloads import pack
from onward.engine.sending import wakes_for
from onward.engine.starting import check_started
from onward.errors import BadInput, NotFound, RunOver
from onward.model.messages import NewMessage
from onward.store.pipelines.publishing import DECLARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.codec import Payload
    from onward.model.pipelines import NewEvent
    from onward.model.runs import NewRun, Started
    from onward.store.caller_writes import CallerWrites
    from onward.store.store import Store

_CONFLICTS = ("return", "reject")


class CallerTransaction:
    """An open transaction of a caller: what is started or sent there happens when it commits."""

    def __init__(self, store: Store, within: CallerWrites) -> None:
        self._store = store
        self._within = within

    async def start(self, run: NewRun, on_conflict: str = "return") -> Started:
        """Start a run with the caller's commit, or find the one of that id.

        Raises:
            Conflict: the id belongs to a run of another workflow or with other arguments, or to any
                run if that is to be rejected. The caller's transaction continues.
            BadInput: the run of that id is to be replaced, which only inserting cannot do.
        """
        if on_conflict not in _CONFLICTS:
            raise BadInput(
                f"on_conflict={on_conflict!r}",
                "would change an existing run, but a start in your transaction only inserts rows",
                f"Use {' or '.join(_CONFLICTS)}, or start the run with app.start",
            )
        started = await self._within.start(run)
        return check_started(run, started, on_conflict, "Choose another id")

    async def signal(
        self, target: str, name: str, payload: Payload, *, message: str | None = None
    ) -> None:
        """Send a signal to a run, by id or else by uid, with the caller's commit.

        The same message id is delivered once.

        Raises:
            NotFound: the caller's transaction sees no such run.
            RunOver: it has ended.
        """
        kind, wanted, packed = MessageKind.SIGNAL, check_id(name, "the signal"), pack(payload)
        await self._within.prepare_to_write()
        found = await self._within.find(target)
        if found is None:
            raise NotFound("run", target, self._store.namespace)
        run_id, state = found
        if state in TERMINAL:
            raise RunOver(
                target, f"signal {name!r} was not delivered, because the run has already ended"
            )
        own = message or self._store.new_uid()
        await self._within.send(NewMessage(run_id, own, kind, wanted, packed, wakes_for(kind)))

    async def publish(self, events: Sequence[NewEvent]) -> None:
        """Publish events with the caller's commit; they are in their topics soon after it.

        Limits of topics do not apply: what was committed must arrive.

        Raises:
            NotFound: the caller's transaction sees no such topic. Nothing was written.
            BadInput: an event names an input, which only a publish of its own can register.
        """
        for event in events:
            if event.input is not None:
                raise BadInput(
                    f"the input of event {event.message!r}",
                    "cannot be registered in your own transaction",
                    "Publish the event with app.publish, or without an input",
                )
        await self._within.prepare_to_write()
        unknown = await self._within.publish(events)
        if unknown is not None:
            raise NotFound("topic", unknown, self._store.namespace, DECLARE)
