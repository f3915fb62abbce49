"""A shop whose effects go wrong in every way, for the commands to look after."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from onward import App, Retry, Signal, Unknown, effect, step, workflow
from tests.kit.watching import until

if TYPE_CHECKING:
    from onward import Run

DANGEROUS = "\x1b[31mred\x9b2J"

go: Signal[object] = Signal("go")
sent: list[str] = []


@effect(settle="1h")  # no test reaches the end of this window, however slow its machine
async def charge(card: str, cents: int) -> str:
    raise ConnectionError("the line went dead")


@effect(approve=True)
async def mail(to: str) -> str:
    sent.append(to)
    return f"mail to {to}"


async def ask_carrier(parcel: str, *, key: str) -> Unknown:
    return Unknown()


@effect(reconcile=ask_carrier)
async def ship(parcel: str) -> str:
    raise ConnectionError(DANGEROUS)


@step(retry=Retry(attempts=1))
async def weigh(grams: int) -> int:
    if grams < 0:
        raise ValueError("lighter than nothing")
    return grams


@workflow
async def pay(cents: int) -> str:
    await weigh(1)
    return await charge("4242", cents)


@workflow
async def write(to: str) -> str:
    return await mail(to)


@workflow
async def send(parcel: str) -> str:
    return await ship(parcel)


@workflow
async def hold() -> object:
    heard = await go.wait()
    return f"{heard!r} of {await weigh(3)}"


@workflow
async def spam() -> list[str]:
    return await asyncio.gather(*(mail(f"reader {n}") for n in range(17)))


@workflow
async def fail() -> int:
    await weigh(2)
    return await weigh(-1)


async def fill(url: str) -> None:
    """Leave a database behind in which one of each waits for somebody."""
    app = App(url)
    async with app, app.worker():
        runs: list[Run[Any]] = [
            await app.start(pay.options(id="pay-1"), 500),
            await app.start(write.options(id="write-1"), "bob"),
            await app.start(send.options(id="send-1"), "parcel"),
            await app.start(hold.options(id="hold-1")),
            await app.start(hold),
            await app.start(fail.options(id="fail-1")),
        ]
        for run in runs:
            await until(partial(_is_quiet, run), 30)


async def _is_quiet(run: Run[Any]) -> bool:
    return await run.state() in ("paused", "waiting", "failed")
