"""What the body of a workflow can ask for beside its steps: time, randomness, marks, other runs."""

from __future__ import annotations

import asyncio
import random as _random
import uuid as _uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from onward.codec import check_id
from onward.core.digest import digest
from onward.errors import BadInput, NotInBody
from onward.runtime.body.children import ChildCall, StartCall
from onward.runtime.context import body_now, step_now
from onward.runtime.execution.leaving import ContinueAsNew

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable

    from onward.codec import CallShape
    from onward.runtime.body.body import Body
    from onward.sdk.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def body_for(what: str, advice: str = "Call it from a workflow") -> Body:
    """Return the body that is asking.

    Raises:
        NotInBody: the code that asks is not part of one.
    """
    body = body_now.get()
    if body is None:
        where = "in a step" if step_now.get() is not None else "outside a run"
        raise NotInBody(what, f"was called {where}, but works only in a workflow", advice)
    return body


def refuse_in_body(what: str, advice: str = "Put the call in a step") -> None:
    """Refuse what works from outside, where the code of a run asks for it.

    Raises:
        NotInBody: it does.
    """
    if body_now.get() is not None:
        raise NotInBody(
            f"{what} in a workflow body",
            "would be repeated in every replay",
            advice,
        )


def now() -> datetime:
    """Return the current time, which is the same in every replay.

    In a run, this is the time at which the last result, signal or timer was delivered to the body.
    Outside a run, it is the time on this machine's clock.

    Example:
        >>> import onward
        >>> onward.now().tzinfo
        datetime.timezone.utc
    """
    body = body_now.get()
    if body is None:
        return datetime.now(UTC)
    return EPOCH + timedelta(microseconds=body.now)


def uuid() -> _uuid.UUID:
    """Return a new UUID, which is the same in every replay.

    Example:
        >>> import onward
        >>> onward.uuid().version
        4
    """
    body = body_now.get()
    if body is None:
        return _uuid.uuid4()
    return _uuid.UUID(hex=digest(body.draw("uuid")), version=4)


def random() -> _random.Random:
    """Return a random number generator that produces the same numbers in every replay.

    Example:
        >>> import onward
        >>> 0 <= onward.random().random() < 1
        True
    """
    body = body_now.get()
    if body is None:
        return _random.Random()  # noqa: S311 - for shuffling and sampling, not for secrets
    return _random.Random(digest(body.draw("random")))  # noqa: S311 - the same


def patched(change: str) -> bool:
    """Return whether the run takes the new branch of a code change.

    A run that had already passed this point when the change was deployed takes the old branch;
    every other run takes the new branch. Outside a run, this returns True.

    Args:
        change: A name for the change, unique in the workflow.

    Example:
        >>> import onward
        >>> "new way" if onward.patched("send-receipts") else "old way"
        'new way'
    """
    body = body_now.get()
    name = check_id(change, "the name of a change")
    return True if body is None else body.patched(name)


def continue_as_new(*args: Any, **kwargs: Any) -> NoReturn:
    """End this run and continue as a new run with the same id and an empty history.

    Use it in workflows that never end. The new run inherits the unread signals, the attributes and
    the deadline.

    Args:
        *args: The positional arguments of the new run.
        **kwargs: The keyword arguments of the new run.

    Raises:
        NotInBody: the caller is not a workflow.

    Example:
        >>> import onward
        >>> @onward.workflow
        ... async def count(n: int) -> int:
        ...     return n if n == 1_000 else onward.continue_as_new(n + 1)
    """
    body_for("onward.continue_as_new")
    raise ContinueAsNew(args, kwargs)


class ChildRun(Generic[R]):
    """A run that a workflow started with `onward.start`. It runs independently.

    Attributes:
        id: The id of the run.
        uid: The unique key of the run; retries and forks have different keys.

    Example:
        >>> import asyncio, onward
        >>> @onward.workflow
        ... async def triple(n: int) -> int:
        ...     return 3 * n
        >>> @onward.workflow
        ... async def parent() -> int:
        ...     child = await onward.start(triple, 5)
        ...     await onward.sleep("1ms")  # both continue
        ...     return await child.result()
        >>> async def main() -> int:
        ...     app = onward.App(":memory:")
        ...     async with app, app.worker(workflows=[parent, triple]):
        ...         return await app.run(parent)
        >>> asyncio.run(main())
        15
    """

    def __init__(
        self, uid: str, run_id: str, started_by: str, parent: str | None, shape: CallShape
    ) -> None:
        self.uid = uid
        self.id = run_id
        self._started_by = started_by
        self._parent = parent
        self._shape = shape
        self._outcome: asyncio.Future[R] | None = None

    async def result(self) -> R:
        """Wait until the run has ended and return its result.

        Raises:
            RunFailed: the run failed; `__cause__` is the error that it raised. An error of a
                built-in or registered type is raised directly instead.
            RunCancelled: the run was cancelled.
            BadInput: another run started the child, so this run cannot wait for it.
        """
        body = body_for(f"result() of run {self.id!r}")
        if self._parent is None:
            raise BadInput(
                f"run {self.id!r}",
                "was not started by this run, so this run cannot wait for it",
                "Wait for it outside the workflow: (await app.get(id)).result()",
            )
        if self._outcome is None:
            call = ChildCall(
                f"result of {self._shape.name}",
                self._shape.decode_result,
                child=self.uid,
                started_by=self._started_by,
                is_reported=self._parent == body.run.uid,
            )
            self._outcome = body.ask(call)
        return await asyncio.shield(self._outcome)

    def __repr__(self) -> str:
        return f"<child run {self.id}>"


async def start(workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ChildRun[R]:
    """Start another run from within a workflow, without waiting for the run to end.

    The new run keeps running after the run that started it has ended, unless you set the option
    `cancel_with_parent=True`.

    Raises:
        Conflict: the id belongs to a run with a different workflow or arguments.
        NotInBody: the caller is not a workflow.

    Example:
        >>> import onward
        >>> @onward.workflow
        ... async def thank(name: str) -> None:
        ...     await onward.sleep("7d")
        >>> @onward.workflow
        ... async def order(name: str) -> str:
        ...     thanks = await onward.start(thank.options(id=f"thank-{name}"), name)
        ...     return f"done, and {thanks.id} continues"
    """
    body = body_for(f"onward.start({workflow.name})", "Outside, use app.start")
    body.names.check("workflow", workflow.name, workflow.fn)
    row = workflow.row(args, kwargs)
    call = StartCall(workflow.name, row, body.now, workflow.start_options.on_conflict)
    call.declares = workflow.flow(args, kwargs).declares
    uid, run_id, parent, started_by = await body.ask(call)
    return ChildRun(uid, run_id, started_by, parent, workflow.definition.shape)


class _AsCompleted(Generic[T]):
    """Awaitables in the order in which they come to an end."""

    def __init__(self, awaitables: Iterable[Awaitable[T]]) -> None:
        # In the order given, so that every task is the same branch in every replay.
        self._tasks = [asyncio.ensure_future(each) for each in awaitables]
        self._ended: asyncio.Queue[asyncio.Future[T]] = asyncio.Queue()
        for task in self._tasks:
            task.add_done_callback(self._ended.put_nowait)

    async def __aiter__(self) -> AsyncIterator[asyncio.Future[T]]:
        for _ in self._tasks:
            yield await self._ended.get()


def as_completed(awaitables: Iterable[Awaitable[T]]) -> AsyncIterator[asyncio.Future[T]]:
    """Iterate over awaitables as they complete; the order is the same in every replay.

    Each item that the iterator yields has already completed. Await the item to get its result or
    raise its error.

    Args:
        awaitables: Calls of steps and workflows, tasks, or other awaitables.

    Example:
        >>> import asyncio, onward
        >>> async def later(n: int) -> int:
        ...     await asyncio.sleep(n / 100)
        ...     return n
        >>> async def main() -> list[int]:
        ...     return [await done async for done in onward.as_completed([later(2), later(1)])]
        >>> asyncio.run(main())
        [1, 2]
    """
    return aiter(_AsCompleted(awaitables))
