"""`app.queues`: limits, rates, pauses and weights of queues, workflows and keys, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from onward.codec import check_id
from onward.core.flow import FlowId, FlowKind, Hold, read_rate
from onward.engine.flows import FlowChange, FlowInfo
from onward.engine.starting import check_flow_key
from onward.errors import BadInput
from onward.model.flow import EVERY_KEY
from onward.sdk.inside import refuse_in_body

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine

__all__ = ["FlowInfo", "Queues"]

MAX_WEIGHT = 1000


class Queues:
    """The queues of an app, as `app.queues`: limits, rates, pauses and weights.

    What you set here wins over what the code declares, until you `clear` it. Each method takes the
    name of a queue, or `workflow=` for a workflow; with `key=` it is about one key of the queue,
    and with `key="*"` about every key of it that does not have its own limits.
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to app.queues")
        return self._opened

    async def list(self) -> list[FlowInfo]:
        """Return the queues, and the workflows and keys that have limits, rates or pauses."""
        return await self._engine.list_flows()

    async def limit(
        self,
        queue: str | None = None,
        max: int | None = None,  # noqa: A002 - it is the user's word
        *,
        workflow: str | None = None,
        key: str | None = None,
        rate: str | None = None,
        hold: Literal["running", "open"] | None = None,
    ) -> None:
        """Limit how many runs may run at a time, and how many may start.

        Runs that are running continue, even if there are more of them than the new limit.

        Args:
            queue: The queue.
            max: How many runs may run at a time, on all workers together; 0: none.
            workflow: A workflow, instead of a queue.
            key: A key of the queue; "*": every key that does not have its own limit.
            rate: How many runs may start: "10/m", "1/5s", "100/h".
            hold: Which runs count: those that are "running", or with "open" all between their first
                claim and their end, including while they wait.

        Raises:
            BadInput: neither a limit nor a rate is given, or one of them is none.
        """
        flow = _flow(queue, workflow, key)
        if max is None and rate is None and hold is None:
            raise BadInput("limit()", "was given no limit", "Pass max= or rate=, or call clear()")
        if max is not None and (type(max) is not int or max < 0):
            raise BadInput(f"max={max!r}", "is not 0 or a positive whole number", "Use 0 or more")
        if hold is not None and hold not in tuple(Hold):
            raise BadInput(f"hold={hold!r}", 'is not "running" or "open"', "Use one of them")
        held = None if hold is None else Hold(hold)
        given = None if rate is None else read_rate(rate)
        await self._engine.change_flow(flow, FlowChange(max, given, held))

    async def weight(self, queue: str, key: str, weight: int) -> None:
        """Set the share of a key among the keys of its queue; by default each has 1.

        A key with weight 3 gets three runs for each run of a key with weight 1, as long as both
        have runs to claim.
        """
        if type(weight) is not int or not 1 <= weight <= MAX_WEIGHT:
            raise BadInput(
                f"weight={weight!r}",
                f"is not a whole number between 1 and {MAX_WEIGHT:,}",
                "Use a number in this range",
            )
        flow = FlowId(FlowKind.KEY, check_flow_key(key), check_id(queue, "the queue"))
        await self._engine.change_flow(flow, FlowChange(weight=weight))

    async def pause(self, queue: str | None = None, *, workflow: str | None = None) -> None:
        """Let workers claim no more runs of a queue or a workflow; running ones continue."""
        await self._engine.change_flow(_flow(queue, workflow), FlowChange(is_paused=True))

    async def resume(self, queue: str | None = None, *, workflow: str | None = None) -> None:
        """Let workers claim runs of a queue or a workflow again."""
        await self._engine.change_flow(_flow(queue, workflow), FlowChange(is_paused=False))

    async def clear(
        self,
        queue: str | None = None,
        *,
        workflow: str | None = None,
        key: str | None = None,
        declared: bool = False,
    ) -> None:
        """Remove the limit, the rate and the weight that were set here.

        What the code declares is in force again. With `declared` that is removed, too, until a
        worker starts whose code declares it.
        """
        change = FlowChange(clears=True, forgets=declared)
        await self._engine.change_flow(_flow(queue, workflow, key), change)


def _flow(queue: Any, workflow: Any, key: str | None = None) -> FlowId:
    """Return what a call is about.

    Raises:
        BadInput: it is about nothing, or about two things.
    """
    if (queue is None) == (workflow is None):
        raise BadInput("the call", "needs either a queue or a workflow", "Pass one of them")
    if workflow is not None:
        if key is not None:
            raise BadInput(
                "key=", "needs a queue, because each queue has its own keys", "Pass the queue"
            )
        name = getattr(workflow, "name", workflow)
        return FlowId(FlowKind.WORKFLOW, check_id(name, "the workflow"))
    if key is None:
        return FlowId(FlowKind.QUEUE, check_id(queue, "the queue"))
    known = key if key == EVERY_KEY else check_flow_key(key)
    return FlowId(FlowKind.KEY, known, check_id(queue, "the queue"))
