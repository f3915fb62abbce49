"""What the code of a workflow or a step can know and say of its own run."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from onward.codec import check_id, decode, encode
from onward.engine.notes import Noted
from onward.engine.payloads import pack
from onward.errors import BadInput, NotInBody
from onward.runtime.body.draws import beginning_of_body
from onward.runtime.body.runloop import branch_now
from onward.runtime.context import body_now, step_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.attempt import Attempt
    from onward.runtime.body.body import Body


class Attributes(MutableMapping[str, Any]):
    """Named values that a run stores about itself. They are plain data, and `info()` shows them.

    Values that a step sets are stored together with the result of the step.
    """

    def __init__(self, seen: dict[str, Any], note: Callable[[Noted], None]) -> None:
        self._seen = seen
        self._note = note

    def __getitem__(self, name: str) -> Any:
        return self._seen[name]

    def __setitem__(self, name: str, value: Any) -> None:
        # Refused here if it cannot be kept; and what the code does to it later is not in it.
        kept = decode(encode(value, path=f"attribute {name}"))
        noted = Noted()
        noted.attributes[check_id(name, "the name of an attribute")] = kept
        self._note(noted)

    def __delitem__(self, name: str) -> None:
        raise BadInput(f"attribute {name!r}", "cannot be deleted", "Set it to None")

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


class Counters(Mapping[str, int | float]):
    """Counters of a run, which stay exact when steps are retried and the body is replayed."""

    def __init__(self, seen: dict[str, int | float], note: Callable[[Noted], None]) -> None:
        self._seen = seen
        self._note = note

    def add(self, name: str, count: float = 1) -> None:
        """Add to a counter.

        In a step, the addition is stored when the step has succeeded.
        """
        if isinstance(count, bool) or not isinstance(count, int | float):
            raise BadInput(f"count {count!r}", "is not a number", "Add an int or a float")
        encode(count, path=f"counter {name}")  # refuse here what could not be kept
        noted = Noted()
        noted.counters[check_id(name, "the name of a counter")] = count
        self._note(noted)

    def __getitem__(self, name: str) -> int | float:
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


class Current:
    """The current run, as its body and its steps see it; returned by `onward.current()`.

    Attributes:
        id: The id of the run.
        uid: The unique key of the run; retries and forks have different keys.
        workflow: The name of the workflow.
        queue: The queue of the run.
        attempt: In a step, the number of the step's current attempt; in a body, the number of the
            run's current attempt.
        parent: The uid of the run that started this one, or None.
        root: The uid of the topmost run in its tree.
        step: In a step, the name of the step.
        attributes: Values that the run stores about itself.
        counters: Counters of the run.

    Example:
        >>> import onward
        >>> from onward.handles import Current
        >>> def report(run: Current) -> None:
        ...     run.attributes["customer"] = "Ada"
        ...     run.progress("halfway")
        >>> @onward.step
        ... async def bake(loaves: int) -> None:
        ...     report(onward.current())
    """

    def __init__(self, run: ClaimedRun, attempt: Attempt | None, body: Body | None) -> None:
        self.id = run.id
        self.uid = run.uid
        self.workflow = run.name
        self.queue = run.queue
        self.parent = run.parent
        self.root = run.root or run.uid
        self.attempt = run.attempt if attempt is None else attempt.number
        self.step = None if attempt is None else attempt.name
        self._run = run
        self._attempt = attempt
        self._body = body
        seen = attempt.noted if attempt is not None else _notes_of(body).seen
        self.attributes = Attributes(seen.attributes, self._note)
        self.counters = Counters(seen.counters, self._note)

    def _note(self, noted: Noted) -> None:
        if self._attempt is not None:
            self._attempt.noted.take(noted)
        else:
            _notes_of(self._body).note(noted, branch_now.get())

    @property
    def scheduled_at(self) -> datetime:
        """The scheduled start of the run or, in a retry, fork or continuation, of the first run."""
        at = beginning_of_body(self._run).scheduled_at
        return datetime.fromtimestamp(at / 1_000_000, UTC)

    @property
    def deadline(self) -> datetime | None:
        """When the run is cancelled if it has not ended by then; None if there is no deadline."""
        at = self._run.deadline
        return None if at is None else datetime.fromtimestamp(at / 1_000_000, UTC)

    @property
    def why(self) -> str:
        """What the run is waiting for, as text."""
        waited = () if self._body is None else tuple(self._body.calls.values())
        if not waited:
            return "it is not waiting for anything"
        return "it is waiting for " + ", ".join(
            f"{call.kind} {call.name!r}" for call in waited[:10]
        )

    def heartbeat(self, progress: Any = None) -> None:
        """Stop here if the step was cancelled or has timed out; optionally report progress.

        This is the only way to stop a step that runs in a thread, so call it in long loops.

        Args:
            progress: The new value of `info().progress`.

        Raises:
            asyncio.CancelledError: the step has timed out, or is no longer awaited.
        """
        if self._attempt is None:
            raise NotInBody("heartbeat() in a workflow body", "does nothing", "Call it in a step")
        if progress is not None:
            self._attempt.progress(progress)
        self._attempt.heartbeat()

    def progress(self, value: Any) -> None:
        """Set the value of `info().progress`; the last value wins."""
        if self._attempt is not None:
            self._attempt.progress(value)
        elif self._body is not None:
            self._body.progress(pack(encode(value, path="progress")))

    def __repr__(self) -> str:
        return f"<in run {self.id}>"


def _notes_of(body: Body | None) -> Any:
    assert body is not None
    return body.notes


def current() -> Current:
    """Return the run that the calling code belongs to.

    Raises:
        NotInBody: the calling code does not belong to a run.

    Example:
        >>> import asyncio, onward
        >>> @onward.step
        ... async def load(rows: int) -> int:
        ...     onward.current().counters.add("rows", rows)
        ...     return rows
        >>> @onward.workflow
        ... async def batch() -> str:
        ...     await load(3)
        ...     await load(4)
        ...     return f"{onward.current().id}: {onward.current().counters['rows']} rows"
        >>> async def main() -> str:
        ...     app = onward.App(":memory:")
        ...     async with app, app.worker(workflows=[batch]):
        ...         return await app.run(batch.options(id="monday"))
        >>> asyncio.run(main())
        'monday: 7 rows'
    """
    attempt, body = step_now.get(), body_now.get()
    if attempt is not None and body is None:
        return Current(attempt.run, attempt, None)
    if body is None:
        raise NotInBody(
            "onward.current()", "was called outside a run", "Call it in a workflow or a step"
        )
    return Current(body.run, None, body)
