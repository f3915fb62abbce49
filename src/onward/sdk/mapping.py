"""`map` and `starmap`: one call per item, in chunks that are runs of their own."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from onward.codec import check_id, signature_of
from onward.core.digest import digest
from onward.errors import BadInput
from onward.runtime.body.children import ChildCall, PartCall
from onward.runtime.body.chunk_data import Item, Outcome
from onward.runtime.body.chunks import (
    BYTES_AHEAD,
    MAX_BYTES,
    MAX_ITEMS,
    MAX_OPEN,
    ChunkShape,
    chunk_run,
)
from onward.runtime.body.held_results import LastHistory, reading_call
from onward.runtime.body.routing import step_call
from onward.runtime.context import body_now
from onward.runtime.definition import StepDefinition

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Generator,
        Iterable,
        Iterator,
        Sequence,
    )

    from onward.core.retry import Retry
    from onward.runtime.body.body import Body
    from onward.runtime.body.chunk_data import CallOptions
    from onward.runtime.definition import WorkflowDefinition

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

LIMIT = 100
"""How many items are worked on at a time, by default."""


class Mappable(Generic[P, R]):
    """What steps and workflows have in common: they can be called for many items."""

    @property
    def mapped(self) -> StepDefinition | WorkflowDefinition:
        """What is called for each item."""
        raise NotImplementedError

    def map_options(self, retry: Retry | None) -> CallOptions:
        """Return how it is called for each item; `retry` is the policy of the workflow."""
        raise NotImplementedError

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it once."""
        raise NotImplementedError

    # `self` is written as what can be called with one item: so a checker sees what items may be.
    @overload
    def map(
        self: Callable[[T], Awaitable[R]],
        items: Iterable[T],
        *,
        limit: int = ...,
        key: Callable[[T], str] | None = ...,
        return_exceptions: Literal[False] = ...,
    ) -> Mapped[R]: ...
    @overload
    def map(
        self: Callable[[T], Awaitable[R]],
        items: Iterable[T],
        *,
        limit: int = ...,
        key: Callable[[T], str] | None = ...,
        return_exceptions: bool,
    ) -> Mapped[R | BaseException]: ...
    def map(
        self,
        items: Iterable[Any],
        *,
        limit: int = LIMIT,
        key: Callable[[Any], str] | None = None,
        return_exceptions: bool = False,
    ) -> Mapped[Any]:
        """Make one call for each item, with at most `limit` calls at a time.

        Await the result to get a list in the order of the items, or iterate over it with `async
        for`, which keeps only some of the results in memory (unless you pass `key`). In a run,
        finished chunks of up to 500 items are never repeated.

        Args:
            items: The items; each is the only argument of one call.
            limit: How many calls may be in progress at a time.
            key: A function that returns a key for an item, such as an order id. Results are stored
                under these keys, so changed code may reorder or filter the list.
            return_exceptions: Whether to return errors among the results. By default, the first
                error is raised as soon as its chunk is done, and the remaining calls are cancelled.

        Example:
            >>> import asyncio
            >>> from onward import step
            >>> @step
            ... def cube(n: int) -> int:
            ...     return n**3
            >>> async def main() -> list[int]:
            ...     return await cube.map([1, 2, 3], limit=2)
            >>> asyncio.run(main())
            [1, 8, 27]
        """
        calls = [((item,), item) for item in items]
        return Mapped(self, calls, limit, key, return_exceptions=return_exceptions)

    @overload
    def starmap(
        self,
        items: Iterable[Iterable[Any]],
        *,
        limit: int = ...,
        key: Callable[[Any], str] | None = ...,
        return_exceptions: Literal[False] = ...,
    ) -> Mapped[R]: ...
    @overload
    def starmap(
        self,
        items: Iterable[Iterable[Any]],
        *,
        limit: int = ...,
        key: Callable[[Any], str] | None = ...,
        return_exceptions: bool,
    ) -> Mapped[R | BaseException]: ...
    def starmap(
        self,
        items: Iterable[Iterable[Any]],
        *,
        limit: int = LIMIT,
        key: Callable[[Any], str] | None = None,
        return_exceptions: bool = False,
    ) -> Mapped[Any]:
        """Make one call for each item; each item is an iterable of arguments. See `map`."""
        calls = [(tuple(item), item) for item in items]
        return Mapped(self, calls, limit, key, return_exceptions=return_exceptions)


class Mapped(Generic[R_co]):
    """The result of `map`. Await it to get a list, or iterate over it with `async for`."""

    def __init__(
        self,
        mapped: Mappable[..., Any],
        calls: list[tuple[tuple[Any, ...], Any]],
        limit: int,
        key: Callable[[Any], str] | None,
        *,
        return_exceptions: bool,
    ) -> None:
        if limit < 1:
            raise BadInput(f"limit={limit}", "is too low", "Use 1 or more")
        self._mapped = mapped
        self._calls = calls
        self._limit = limit
        self._key = key
        self._return_exceptions = return_exceptions

    def __await__(self) -> Generator[Any, None, list[R_co]]:
        return self._all().__await__()

    async def _all(self) -> list[R_co]:
        async with aclosing(self.__aiter__()) as results:
            return [result async for result in results]

    async def __aiter__(self) -> AsyncGenerator[R_co, None]:
        body = body_now.get()
        outcomes = self._plainly() if body is None else self._in_run(body)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                if outcome.error is not None and not self._return_exceptions:
                    raise outcome.error
                yield cast("R_co", outcome.value if outcome.error is None else outcome.error)

    # --- outside a run ---------------------------------------------------------------------------

    async def _plainly(self) -> AsyncGenerator[Outcome, None]:
        async def call(args: tuple[Any, ...]) -> Outcome:
            try:
                return Outcome(await self._mapped(*args))
            except Exception as error:  # noqa: BLE001 - the caller decides what it means
                return Outcome(error=error)

        self._check_keys()
        under_way: deque[asyncio.Task[Outcome]] = deque()
        try:
            for args, _ in self._calls:
                if len(under_way) >= self._limit:
                    yield await under_way.popleft()
                under_way.append(asyncio.create_task(call(args)))
            while under_way:
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    # --- in a run --------------------------------------------------------------------------------

    async def _in_run(self, body: Body) -> AsyncGenerator[Outcome, None]:
        plan = _Plan(body, self._mapped, self._limit, len(self._calls))
        keys = self._check_keys()
        items = [self._item(n, args) for n, (args, _) in enumerate(self._calls)]
        if keys is None:
            async with aclosing(plan.in_order(items)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
            return
        keyed = {key: item._replace(key=key) for key, item in zip(keys, items, strict=True)}
        found = await plan.by_key(keyed, raising=not self._return_exceptions)
        for each in keys:
            yield found[each]

    def _check_keys(self) -> list[str] | None:
        """Return the keys of all items, if there are any to be."""
        if self._key is None:
            return None
        keys = [check_id(self._key(item), "the key of an item") for _, item in self._calls]
        if len(set(keys)) < len(keys):
            raise BadInput("the keys of a map", "are not unique", "Give each item its own key")
        return keys

    def _item(self, number: int, args: tuple[Any, ...]) -> Item:
        try:
            call = self._mapped.mapped.shape.bind(args, {})
            return Item(call.payload().data, call.fingerprint())
        except Exception as refused:
            refused.add_note(f"The error is about item {number} of the map, counting from 0.")
            raise


async def _settled(buckets: int) -> int:
    return buckets


_SETTLE = StepDefinition("settle map", _settled, signature_of(_settled), True, compare=False)  # noqa: FBT003


class _Plan:
    """How the items of a map are spread over chunks."""

    def __init__(self, body: Body, mapped: Mappable[..., Any], limit: int, count: int) -> None:
        self._body = body
        self._definition = mapped.mapped
        kind = "step" if isinstance(self._definition, StepDefinition) else "workflow"
        body.names.check(kind, self._definition.name, self._definition.fn)
        self._how = mapped.map_options(body.retry)
        self._shape = ChunkShape(mapped.mapped)
        self._histories = LastHistory(body.read_history)
        self._open = min(MAX_OPEN, limit)
        self._limit = limit // self._open
        self._limit_of_all = limit
        self._size = max(1, min(MAX_ITEMS, -(-count // self._open)))
        self._count = count
        # No item depends on the outcome of another, so all of them are asked for now.
        self._asked = body.position

    async def in_order(self, items: Sequence[Item]) -> AsyncGenerator[Outcome, None]:
        """Yield the outcome of each call; a few chunks are under way at a time."""
        under_way: deque[_Part] = deque()
        try:
            for items_of_part in _parts(items, self._size):
                under_way.append(_Part(items_of_part, self._chunk(items_of_part)))
                if len(under_way) >= self._open:
                    async with aclosing(self._of_part(under_way[0])) as outcomes:
                        async for outcome in outcomes:
                            yield outcome
                    under_way.popleft()
            while under_way:
                async with aclosing(self._of_part(under_way[0])) as outcomes:
                    async for outcome in outcomes:
                        yield outcome
                under_way.popleft()
        finally:
            for part in under_way:
                part.chunk.cancel()

    async def _of_part(self, part: _Part) -> AsyncGenerator[Outcome, None]:
        """Yield the outcomes of the calls of a part, for which it may take several chunks."""
        left = list(range(len(part.items)))
        found: dict[int, Outcome] = {}
        at = 0
        while left:
            done = zip(left, await part.chunk, strict=True)
            found |= {n: outcome for n, outcome in done if outcome is not None}
            left = [n for n in left if n not in found]
            if left:
                rest = [part.items[n] for n in left]
                part.chunk = self._chunk(rest, limit=self._limit_of_rest())
            while at in found:
                if found[at].place is not None:
                    await self._read([found[n] for n in sorted(found)])
                yield found.pop(at)
                at += 1

    async def _read(self, outcomes: Iterable[Outcome], name: str | None = None) -> None:
        """Read the first results that a chunk has kept in its history."""
        held = [(outcome, outcome.place) for outcome in outcomes if outcome.place is not None]
        places = [place for _, place in held]
        call = reading_call(self._body, self._definition.shape, self._histories, places)
        future = self._body.ask(call, name)
        call.asked = self._asked
        for (outcome, _), value in zip(held, await future, strict=False):
            outcome.value, outcome.place = value, None

    def _limit_of_rest(self) -> int:
        """Return how many calls may be under way in what is left of a part.

        The other chunks have ended by then, or soon will. But together the results of so many calls
        should not become large.
        """
        fitting = BYTES_AHEAD // max(1, self._shape.average)
        return min(self._limit_of_all, max(1, fitting))

    def _chunk(
        self, items: Sequence[Item], name: str | None = None, *, limit: int | None = None
    ) -> asyncio.Future[list[Outcome | None]]:
        limit = limit or self._limit
        run = chunk_run(self._definition, items, limit, self._how, self._body.run)
        # As a part of a map that has keys, later code may leave it out, or ask for other items.
        made = ChildCall if name is None else PartCall
        call = made(
            f"map {self._definition.name}",
            self._shape.decode_result,
            start=run,
            asked_at=self._body.now,
        )
        future = self._body.ask(call, name)
        call.asked = self._asked
        call.reaches_out = not isinstance(self._definition, StepDefinition)
        return future

    async def by_key(self, items: dict[str, Item], *, raising: bool) -> dict[str, Outcome]:
        """Return the outcome of each call, whatever else has been in the list before.

        Items go to buckets by their keys alone, and how many buckets there are is settled when the
        map is first made. A bucket keeps the results of items that have left the list; those that
        have come to a bucket since it was done are done in another.
        """
        place = self._body.draw(f"map {self._definition.name}").partition(" ")[2]
        wanted = -(-self._count // self._size) or 1
        buckets = await self._body.ask(step_call(self._body, _SETTLE, (wanted,), {}), place)
        found: dict[str, Outcome] = {}
        spread: dict[int, list[Item]] = {}
        for key, item in items.items():
            spread.setdefault(int(digest(key), 16) % buckets, []).append(item)
        free = asyncio.Semaphore(self._open)

        async def fill(name: str, bucket: list[Item]) -> None:
            async with free:
                known = await self._fill(name, bucket, raising=raising)
                found.update({key: known[key] for key in map(_key, bucket)})

        try:
            async with asyncio.TaskGroup() as group:
                for number, bucket in sorted(spread.items()):
                    name = f"{place} {number}"
                    # Named, so that tasks which the body makes later are not counted with these.
                    group.create_task(fill(name, bucket), name=name)
        except BaseExceptionGroup as failed:
            error = failed.exceptions[0]
            raise (error.error if isinstance(error, _Failed) else error) from None
        return found

    async def _fill(self, name: str, bucket: list[Item], *, raising: bool) -> dict[str, Outcome]:
        """Return the outcomes of the items of a bucket, and of others that were in it before."""
        known: dict[str, Outcome] = {}
        late = 0
        while left := [item for item in bucket if item.key not in known]:
            part = next(_parts(left, MAX_ITEMS))
            chunk = name + (f" late {late}" if late else "")
            done = list(filter(None, await self._chunk(part, chunk)))
            known |= {cast("str", outcome.key): outcome for outcome in done}
            late += 1
            errors = (known[key].error for key in map(_key, bucket) if key in known)
            error = next(filter(None, errors), None) if raising else None
            if error is not None:
                raise _Failed(error)
            reads = 0
            while any(outcome.place is not None for outcome in done):
                await self._read(done, f"{chunk} {reads}")
                reads += 1
        return known


class _Part:
    """Calls that are worked through together, and the chunk that is at them."""

    __slots__ = ("chunk", "items")

    def __init__(self, items: Sequence[Item], chunk: asyncio.Future[list[Outcome | None]]) -> None:
        self.items = items
        self.chunk = chunk


class _Failed(Exception):
    """An item of a map has failed, and the rest is not to be done."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _key(item: Item) -> str:
    return cast("str", item.key)


def _parts(items: Sequence[Item], max_items: int) -> Iterator[Sequence[Item]]:
    """Yield parts of at most so many items, which are not too large together."""
    at = size = 0
    for n, item in enumerate(items):
        if n > at and (n - at >= max_items or size + len(item.data) > MAX_BYTES):
            yield items[at:n]
            at, size = n, 0
        size += len(item.data)
    if at < len(items):
        yield items[at:]
