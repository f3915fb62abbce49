"""Runs of a simulated world that change what is outside of it, and the shop that they change.

The shop loses requests and replies, refuses, and applies late; it remembers what it was sent and
what it applied. Some requests it takes once per key, until it forgets the key. What it is sent the
witness holds against the ledger at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.retry import Retry
from onward.errors import EffectSkipped, NotApplied
from onward.runtime.body.effects import Applied, Unknown
from onward.sdk.effect import effect, effect_key
from onward.sdk.workflow import workflow
from tests.simulation.simulator.process import process_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.sdk.workflow import Workflow
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.witness import Witness

TIMEOUT_SECONDS = 5
SETTLE_SECONDS = 3
START_SECONDS = 1
KEY_SECONDS = 25
"""How long the shop knows a key: not so long that an operator is never needed."""

TROUBLES = ("refused", "lost", "reply lost", "late", "slow")
OFTEN = Retry(attempts=20, delay="1s", factor=1)


class Shop:
    """What is outside of a world.

    Args:
        witness: Sees every send.
        draw: Decides what goes wrong.
        world: The process in which late things happen, whichever processes have died meanwhile.
        clears: After how many seconds nothing goes wrong any more.
    """

    def __init__(self, witness: Witness, draw: Draw, world: Process, clears: float) -> None:
        self._witness = witness
        self._draw = draw
        self._world = world
        self._clears = clears
        self.sent: Counter[str] = Counter()
        self.applied: Counter[str] = Counter()
        self.answers: dict[str, str] = {}
        self._taken: dict[str, float] = {}

    async def send(self, what: str, key: str, *, honours: bool = False) -> str:
        """Take a request, as a handler sends it, and answer it if all goes well."""
        self.sent[key] += 1
        self._witness.effect_is_sent(process_now.get(), key, self.sent[key])
        trouble = self._trouble()
        if trouble == "refused":
            raise NotApplied("the shop refuses")
        if trouble == "lost":
            raise ConnectionError("the request got lost")
        if trouble == "late":
            loop, context = asyncio.get_running_loop(), self._world.context.copy()
            late = self._draw.upto(TIMEOUT_SECONDS + SETTLE_SECONDS)
            loop.call_later(late, self._apply, what, key, honours, context=context)
            await asyncio.sleep(self._draw.one_of((0, 2 * TIMEOUT_SECONDS)))
            raise ConnectionError("no reply")
        self._apply(what, key, honours)
        if trouble == "reply lost":
            raise ConnectionError("the reply got lost")
        most = 2 * TIMEOUT_SECONDS if trouble == "slow" else 1
        await asyncio.sleep(self._draw.upto(most))
        return self.answers[key]

    async def find(self, key: str, *, is_slow: bool) -> Applied[str] | NotApplied | Unknown:
        """Say what became of a request; if slow, what was looked at may have changed since."""
        found: Applied[str] | NotApplied | Unknown = NotApplied()
        if key in self.answers:
            found = Applied(self.answers[key])
        if self._trouble() is not None and self._draw.happens(0.5):
            found = Unknown()
        await asyncio.sleep(self._draw.upto(TIMEOUT_SECONDS) if is_slow else 0)
        return found

    def _apply(self, what: str, key: str, honours: bool) -> None:
        if honours and self._knows(key):
            return
        self.applied[key] += 1
        self.answers.setdefault(key, f"{what}={self._draw.token()[:8]}")

    def _knows(self, key: str) -> bool:
        """Say whether a key was taken before and not forgotten; if not, it is taken now.

        How long it must be known is counted by the database's clock; if that was put back, longer.
        """
        now, longer = asyncio.get_running_loop().time(), self._witness.steps.back / SECOND
        if key in self._taken and now <= self._taken[key] + KEY_SECONDS + longer:
            return True
        self._taken[key] = now
        return False

    def _trouble(self) -> str | None:
        is_clear = asyncio.get_running_loop().time() > self._clears
        return None if is_clear or self._draw.happens(0.4) else self._draw.one_of(TROUBLES)


_shops: list[Shop] = []


def shop() -> Shop:
    """Return the shop of the world that is running; there is one at a time."""
    return _shops[-1]


def open_shop(new: Shop) -> Callable[[], None]:
    """Let handlers reach this shop, until what is returned is called."""
    _shops.append(new)
    return lambda: _shops.remove(new)


# --- effects --------------------------------------------------------------------------------------


async def look_up(what: str, *, key: str) -> Applied[str] | NotApplied | Unknown:
    """Ask the shop, which takes its time."""
    return await shop().find(key, is_slow=True)


async def look_at(what: str, *, key: str) -> Applied[str] | NotApplied | Unknown:
    """Ask the shop, which answers at once."""
    return await shop().find(key, is_slow=False)


def _windows() -> dict[str, Any]:
    return {"timeout": TIMEOUT_SECONDS, "settle": SETTLE_SECONDS, "start_within": START_SECONDS}


@effect(name="simulated charge", reconcile=look_up, retry=OFTEN, **_windows())
async def charge(what: str) -> str:
    """Be looked up when it is uncertain."""
    return await shop().send(what, effect_key())


@effect(name="simulated order", reconcile=look_at, retry=OFTEN, **_windows())
async def order(what: str) -> str:
    """Be looked up at once when it is uncertain."""
    return await shop().send(what, effect_key())


@effect(name="simulated post", retry=OFTEN, **_windows())
async def post(what: str) -> str:
    """Wait for an operator when it is uncertain."""
    return await shop().send(what, effect_key())


@effect(name="simulated notice", idempotency_window=KEY_SECONDS, retry=OFTEN, **_windows())
async def notice(what: str) -> str:
    """Be sent again when it is uncertain, as long as the shop knows its key."""
    return await shop().send(what, effect_key(), honours=True)


@effect(name="simulated letter", approve=True, reconcile=look_up, retry=OFTEN, **_windows())
async def letter(what: str) -> str:
    """Wait for an operator before it is sent."""
    return await shop().send(what, effect_key())


async def _outcome(asked: Any) -> str:
    try:
        return str(await asked)
    except EffectSkipped:
        return "skipped"
    except NotApplied:
        return "not applied"


@workflow(name="simulated purchases")
async def purchases() -> list[str]:
    """Change what is outside in every way there is."""
    first = await _outcome(charge("a"))
    beside = asyncio.gather(_outcome(post("b")), _outcome(notice("c")), _outcome(order("d")))
    return [first, *await beside, await _outcome(letter("e"))]


PURCHASES: dict[str, Workflow[..., list[str]]] = {purchases.name: purchases}


def is_right_purchase(_: str, result: list[str] | None) -> bool:
    """Say whether a run may have this result: what the shop answered, or that there is nothing."""
    given = {*shop().answers.values(), "skipped", "not applied"}
    return result is not None and len(result) == 5 and given >= set(result)
