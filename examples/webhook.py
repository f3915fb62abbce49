"""A webhook whose outcome cannot be looked up: an operator decides.

python examples/webhook.py

This file plays the operator. In production a person uses `onward effects list` and `onward effects
resolve`, and has days to answer: a waiting run costs nothing.
"""

import asyncio
from datetime import UTC, datetime

from onward import App, effect, workflow
from onward.errors import EffectSkipped
from onward.sdk.effects import EffectInfo
from onward.telemetry import Attention

received: list[str] = []
troubles = {
    "the warehouse": "the reply got lost",
    "the bank": "the request got lost",
    "the museum": "the reply got lost",
}


# No reconciler: this receiver cannot be queried. The three limits say how long a call can still
# arrive after the ledger write: 3 seconds here, 55 by default.
@effect(timeout="1s", settle="1s", start_within="1s")
async def notify(receiver: str, text: str) -> str:
    print(f"    sending {text!r} to {receiver}", flush=True)
    trouble = troubles.pop(receiver, "")
    if trouble != "the request got lost":
        received.append(receiver)
    if trouble:
        raise ConnectionError("no answer")  # the same for a lost request and a lost reply
    return f"{receiver} said thanks"


@workflow
async def announce(receiver: str) -> str:
    try:
        return await notify(receiver, "order 7 is paid")  # waits here for a verdict if needed
    except EffectSkipped:
        return f"{receiver} may or may not know"


async def operate(app: App, call: EffectInfo) -> None:
    """Do what an operator does: look at the effect, find out by phone, give a verdict."""
    receiver = call.arguments["receiver"]
    print(f"operator: {receiver}? {call.why}", flush=True)
    if receiver == "the museum":
        await app.effects.resolve(call.id, "skip", reason="no answer by phone")
    elif receiver in received:
        result = f"{receiver} has it, says Ada"
        await app.effects.resolve(call.id, "applied", result=result, reason="Ada called them")
    else:
        # It did not happen, so it will be sent again. This verdict is refused until the first
        # call can no longer arrive.
        assert call.judged_from is not None
        seconds = (call.judged_from - datetime.now(UTC)).total_seconds()
        await asyncio.sleep(max(0.0, seconds) + 0.1)
        await app.effects.resolve(call.id, "not_applied", reason="they got nothing, says Ada")


waiting: asyncio.Queue[str] = asyncio.Queue()


async def notify_operator(call: Attention) -> None:
    """Notify the operator that an effect waits for a verdict."""
    if call.effect is not None:
        await waiting.put(call.effect)


async def main() -> None:
    app = App("webhook.db", on_attention=notify_operator)
    async with app, app.worker():
        for receiver in list(troubles):
            run = await app.start(announce, receiver)
            uncertain = await asyncio.wait_for(waiting.get(), 30)
            await operate(app, await app.effects.get(uncertain))
            print(await run.result(timeout="30s"), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
