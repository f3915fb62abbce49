"""An outside world for tests of effects: a service that loses replies, is late, or says no.

    bank = Outside()
    bank.befall(Trouble.REPLY_LOST)                 # what goes wrong with the next call

    @effect(reconcile=bank.find)
    async def charge(card: str, cents: int) -> str:
        return await bank.call(card, cents, key=effect_key())

It remembers what was sent and what it applied, so that a test can ask how many times a card was
really charged. It is a plain object: give each test one of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.errors import NotApplied
from onward.runtime.body.effects import Applied, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable


class Trouble(StrEnum):
    """What can go wrong with a call."""

    REFUSED = "refused"
    """The service reports that it changed nothing: the caller gets `NotApplied`."""
    LOST = "lost"
    """The request never arrives, but the caller cannot know that."""
    REPLY_LOST = "reply_lost"
    """The request is applied, but its reply never arrives."""
    LATE = "late"
    """No reply arrives, and the request is applied only when the test calls `arrive()`."""
    SILENT = "silent"
    """The request is applied, and the caller waits for a reply until its own time limit expires."""


class Request(NamedTuple):
    """A call that was sent: under which key, if any, and with which arguments."""

    key: str | None
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class Outside:
    """A fake external service that can lose, delay or refuse requests.

    Args:
        honours_keys: Whether the service deduplicates by key: a second request with the same key
            changes nothing and gets the answer to the first, until the test calls `forget()`.
        answer: A function that returns the answer to a request; by default, the answer is a
            numbered receipt.

    Attributes:
        sent: Every request that was made, in order, including those that were lost.
        applied: Every request that changed something, in order.
        is_away: Whether `find` always returns `Unknown`; by default False.

    Example:
        >>> import asyncio
        >>> from onward.testing.outside import Outside, Trouble
        >>> bank = Outside()
        >>> bank.befall(Trouble.REPLY_LOST)
        >>> try:
        ...     asyncio.run(bank.call("card", 100, key="k"))
        ... except ConnectionError as error:
        ...     print(error)
        the reply got lost
        >>> asyncio.run(bank.find("card", 100, key="k"))
        Applied(result='receipt 1')
        >>> bank.times_applied("k")
        1
    """

    def __init__(
        self, *, honours_keys: bool = False, answer: Callable[[Request], Any] | None = None
    ) -> None:
        self._honours_keys = honours_keys
        self._answer = answer or self._receipt
        self._troubles: deque[Trouble | None] = deque()
        self._answers: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        self._under_way: list[Request] = []
        self.sent: list[Request] = []
        self.applied: list[Request] = []
        self.is_away = False

    # --- what the test decides -------------------------------------------------------------------

    def befall(self, *troubles: Trouble | None, times: int = 1) -> None:
        """Decide what goes wrong with each of the next calls; None lets a call through.

        For example, `befall(Trouble.LOST, times=3)` loses the next three requests.
        """
        self._troubles.extend(troubles * times)

    def arrive(self) -> None:
        """Apply the requests that are late."""
        late, self._under_way = self._under_way, []
        for request in late:
            self._apply(request)

    def forget(self) -> None:
        """Forget all keys seen so far, as real services do after a day or so.

        Applied requests stay applied, and `find` still finds them.
        """
        self._kept.clear()

    def times_sent(self, key: str) -> int:
        """Return how many requests were sent with the given key."""
        return sum(request.key == key for request in self.sent)

    def times_applied(self, key: str) -> int:
        """Return how many requests with the given key were applied."""
        return sum(request.key == key for request in self.applied)

    # --- what the code under test calls ----------------------------------------------------------

    async def call(self, *arguments: Any, key: str | None = None, **options: Any) -> Any:
        """Make a call, as the handler of an effect does, and return the answer.

        Raises:
            NotApplied: the service refused the request.
            ConnectionError: no reply arrived.
        """
        await asyncio.sleep(0)
        trouble, answer = self._take(Request(key, arguments, options))
        if trouble is Trouble.SILENT:
            await asyncio.Event().wait()
        return answer

    def call_now(self, *arguments: Any, key: str | None = None, **options: Any) -> Any:
        """Make a call from code that is not async.

        `Trouble.SILENT` raises `TimeoutError` at once.
        """
        trouble, answer = self._take(Request(key, arguments, options))
        if trouble is Trouble.SILENT:
            raise TimeoutError("no reply in time")
        return answer

    async def find(self, *_: Any, key: str, **__: Any) -> Applied[Any] | NotApplied | Unknown:
        """Return the outcome of the calls with the given key.

        You can use this method as a reconciler.
        """
        if self.is_away:
            return Unknown()
        if key in self._answers:
            return Applied(self._answers[key])
        return NotApplied("nothing is known under this key")

    # --- inside ----------------------------------------------------------------------------------

    def _take(self, request: Request) -> tuple[Trouble | None, Any]:
        trouble = self._troubles.popleft() if self._troubles else None
        self.sent.append(request)
        match trouble:
            case Trouble.REFUSED:
                raise NotApplied("the service refused")
            case Trouble.LOST:
                raise ConnectionError("the request got lost")
            case Trouble.LATE:
                self._under_way.append(request)
                raise ConnectionError("no reply yet")
        answer = self._apply(request)
        if trouble is Trouble.REPLY_LOST:
            raise ConnectionError("the reply got lost")
        return trouble, answer

    def _apply(self, request: Request) -> Any:
        if request.key in self._kept:
            return self._kept[request.key]
        self.applied.append(request)
        answer = self._answer(request)
        if request.key is not None:
            self._answers.setdefault(request.key, answer)
            if self._honours_keys:
                self._kept[request.key] = answer
        return answer

    def _receipt(self, _: Request) -> str:
        return f"receipt {len(self.applied)}"
