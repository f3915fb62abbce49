"""Hints that something may have changed. Polling is the truth; a hint only makes it quick.

Everything in this process that uses one namespace of a database shares a `HintBus`. What is
published there reaches every `Subscription` to the subject, in whatever event loop it lives; a
database that can reach other processes hooks itself in. A lost or doubled hint costs time, never
correctness.

Subjects are `queue:NAME` (something there became claimable), `run:UID` (that run changed),
`schedules` (one may have its next slot sooner) and `pipelines` (a handler may have work).
`ANYTHING` stands for all of them, when the change is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from typing import TYPE_CHECKING, Protocol, Self
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

ANYTHING = "*"
SCHEDULES = "schedules"
PIPELINES = "pipelines"


def queue_subject(queue: str) -> str:
    """Return the subject of runs that became claimable in a queue."""
    return f"queue:{queue}"


def run_subject(uid: str) -> str:
    """Return the subject of changes to one run."""
    return f"run:{uid}"


def packed(gathered: Iterable[Iterable[str]], max_bytes: int) -> str:
    """Return all subjects as one text, or `ANYTHING` if they are too many."""
    text = "\n".join(sorted({subject for subjects in gathered for subject in subjects}))
    return text if len(text.encode()) <= max_bytes else ANYTHING


def unpacked(text: str) -> list[str]:
    """Return the subjects in a text that `packed` made."""
    return text.split("\n")


class Carrier(Protocol):
    """Carries hints to other processes, and publishes theirs on the bus of this one."""

    def publish(self, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon. This returns at once and raises nothing."""
        ...


class Subscription:
    """A subscription to hints on some subjects. Use it as a context manager."""

    def __init__(self, hints: HintBus, subjects: Iterable[str]) -> None:
        self.subjects = set(subjects)
        self.others: set[str] | None = None
        """Hints on other subjects, while this is a set: the subscription may soon include them."""
        self.loop = asyncio.get_running_loop()
        self._hints = hints
        self._hinted: set[str] = set()
        self._woken = False
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        self._hints.join(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hints.leave(self)

    def add(self, subject: str) -> None:
        """Subscribe to one more subject."""
        self.subjects.add(subject)

    def discard(self, subject: str) -> None:
        """Subscribe to a subject no longer, and drop its hint."""
        self.subjects.discard(subject)
        self._hinted.discard(subject)

    def deliver(self, subjects: frozenset[str]) -> None:
        """Note hints; called in the loop of this subscription."""
        if self.others is not None:
            self.others |= subjects
        hinted = subjects if ANYTHING in subjects else subjects & self.subjects
        if hinted:
            self._hinted |= hinted
            self._event.set()

    def wake(self) -> None:
        """End the current or next wait without a hint."""
        self._woken = True
        self._event.set()

    async def wait(self, seconds: float) -> set[str]:
        """Return the hints since the last wait, waiting up to `seconds` for one.

        They may be infinite: then no timer is set, and only a hint or a wake ends the wait.
        """
        deadline = self.loop.time() + seconds
        while not (self._hinted or self._woken) and (left := deadline - self.loop.time()) > 0:
            self._event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else left):
                    await self._event.wait()
            # The hint of a run that a worker ended itself comes a turn before it unsubscribes.
            await asyncio.sleep(0)
        self._event.clear()
        self._woken = False
        hinted, self._hinted = self._hinted, set()
        return hinted


class HintBus:
    """The subscriptions of this process to the hints of one namespace."""

    def __init__(self) -> None:
        # Not a set: a simulation can be repeated only if the order is the same.
        self._subscriptions: dict[Subscription, None] = {}
        self._lock = threading.Lock()
        self.on_first_subscription: Callable[[], None] | None = None
        """Called when the first subscription joins: a watcher starts polling then."""

    @property
    def has_subscriptions(self) -> bool:
        """Whether anything in this process waits for hints."""
        return bool(self._subscriptions)

    def join(self, subscription: Subscription) -> None:
        """Add a subscription."""
        with self._lock:
            is_first = not self._subscriptions
            self._subscriptions[subscription] = None
        if is_first and self.on_first_subscription is not None:
            self.on_first_subscription()

    def leave(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        with self._lock:
            self._subscriptions.pop(subscription, None)

    def subscribe(self, subjects: Iterable[str]) -> Subscription:
        """Return a subscription for these subjects, in the running loop."""
        return Subscription(self, subjects)

    def publish(self, subjects: Iterable[str]) -> None:
        """Wake the subscriptions of this process to any of the subjects; from any thread."""
        published = frozenset(subjects)
        with self._lock:
            subscriptions = list(self._subscriptions)
        here = _running_loop()
        for subscription in subscriptions:
            if subscription.loop is here:
                subscription.deliver(published)
            elif not subscription.loop.is_closed():
                subscription.loop.call_soon_threadsafe(subscription.deliver, published)


class HintBuses:
    """The buses of one database: one for each namespace that this process has open.

    Args:
        make: Returns a new bus.
    """

    def __init__(self, make: Callable[[], HintBus] = HintBus) -> None:
        self._make = make
        self._buses: WeakValueDictionary[str, HintBus] = WeakValueDictionary()
        self._lock = threading.Lock()
        self.on_first_subscription: Callable[[], None] | None = None
        """Called when the first subscription to a namespace joins."""

    def of(self, namespace: str) -> HintBus:
        """Return the bus of a namespace, which lasts for as long as it is used."""
        with self._lock:
            bus = self._buses.get(namespace)
            if bus is None:
                bus = self._buses[namespace] = self._make()
                bus.on_first_subscription = self.on_first_subscription
            return bus

    @property
    def has_subscriptions(self) -> bool:
        """Whether anything in this process waits for hints of any namespace."""
        return any(bus.has_subscriptions for bus in self._open())

    def publish(self, subjects: Iterable[str]) -> None:
        """Publish hints in all namespaces: which of them changed is unknown."""
        published = frozenset(subjects)
        for bus in self._open():
            bus.publish(published)

    def _open(self) -> list[HintBus]:
        with self._lock:
            return list(self._buses.values())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
