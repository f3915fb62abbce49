"""What type checkers see of effects: signatures are kept, results have types."""

from datetime import datetime
from typing import assert_type

from onward import App, Applied, Effect, NotApplied, Retry, Unknown, effect, effect_key
from onward.sdk.effects import EffectInfo


async def look_up(cents: int, key: str) -> Applied[str] | NotApplied | Unknown:
    return Unknown() if cents < 0 else Applied(key)


@effect
async def ring(bell: str, *, times: int = 1) -> str:
    assert_type(effect_key(), str)
    return bell * times


@effect(reconcile=look_up, timeout="10s", rate="10/m")
async def charge(cents: int) -> str:
    raise NotApplied("the card was refused", after="1s")


@effect(timeout="5s", approve=True)
def knock(door: str) -> int:  # not async: it runs in a thread
    return len(door)


@effect(idempotency_window="24h", retry=Retry(attempts=20))
async def order(what: str) -> str:
    return what


careful = effect(reconcile=look_up)


@careful
async def refund(cents: int) -> str:
    return str(cents)


class Door:
    @effect
    async def open(self, number: int) -> bool:
        return number > 0


async def use(door: Door) -> None:
    assert_type(await ring("door", times=2), str)
    assert_type(await charge(100), str)
    assert_type(await knock("front"), int)
    assert_type(await order("tea"), str)
    assert_type(await refund(100), str)
    assert_type(await door.open(1), bool)
    keyed: Effect[[int], str] = charge.options(key="order-7")
    assert_type(keyed.name, str)
    assert_type(Applied(7).result, int)

    await ring(1)  # type: ignore[arg-type]  # the bell is a text
    await charge()  # type: ignore[call-arg]  # it has no default
    await door.open("1")  # type: ignore[arg-type]  # the number is a number
    charge.options(queue="q")  # type: ignore[call-arg]  # an effect is sent by its own worker
    effect(rate=10)  # type: ignore[call-overload]  # a rate is a text
    effect(idempotency_window=b"1h")  # type: ignore[call-overload]  # nor is that a time
    order.options(idempotency_window="1h")  # type: ignore[call-arg]  # it is said of the receiver, once


async def operate(app: App) -> None:
    assert_type(await app.effects.pending(limit=10), list[EffectInfo])
    [waiting] = await app.effects.of("order-7")
    assert_type(waiting.id, str)
    assert_type(waiting.tries, int | None)
    assert_type(waiting.known_until, datetime | None)
    assert_type(
        await app.effects.resolve(waiting.id, "applied", result="x", reason="seen"), EffectInfo
    )
    assert_type(await app.effects.approve(waiting.id, reason="fine", by="Ada"), EffectInfo)

    await app.effects.resolve(waiting.id, "perhaps", reason="?")  # type: ignore[arg-type]  # no verdict
    await app.effects.resolve(waiting.id, "skip")  # type: ignore[call-arg]  # a reason is needed
