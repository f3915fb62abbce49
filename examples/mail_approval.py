"""Mails to customers that an operator approves before they are sent.

python examples/mail_approval.py

The approved arguments are sent byte for byte: the ledger stores them when the effect is planned.
This file plays the operator; in production a person uses `onward effects list`.
"""

import asyncio

from onward import App, NotApplied, effect, step, workflow
from onward.telemetry import Attention


@step
async def write(customer: str) -> str:  # this could be a language model
    if customer == "Grace":
        return "Dear Grace, we owe you one million."
    return f"Dear {customer}, your teapot is on its way."


@effect(approve=True)
async def send_mail(to: str, text: str) -> str:
    print(f"    mail to {to}: {text}", flush=True)
    return f"{to} has mail"


@workflow
async def write_to(customer: str) -> str:
    text = await write(customer)
    try:
        return await send_mail(customer, text)  # waits for the approval: minutes or weeks
    except NotApplied:
        return f"{customer} gets no mail"


waiting: asyncio.Queue[str] = asyncio.Queue()


async def notify(call: Attention) -> None:
    """Notify the operator that an effect waits for approval."""
    if call.effect is not None:
        await waiting.put(call.effect)


async def main() -> None:
    app = App("mail.db", on_attention=notify)
    async with app, app.worker():
        for customer in ("Ada", "Grace"):
            run = await app.start(write_to, customer)
            planned = await app.effects.get(await asyncio.wait_for(waiting.get(), 30))
            print(f"may this go out? {planned.arguments['text']}", flush=True)
            if "million" in planned.arguments["text"]:
                await app.effects.reject(planned.id, reason="we do not", by="Joan")
            else:
                await app.effects.approve(planned.id, reason="reads well", by="Joan")
            print(await run.result(timeout="30s"), flush=True)
            said = await app.effects.get(planned.id)
            print(f"the ledger: {said.verdict} by {said.decided_by}, {said.decided_why!r}")


if __name__ == "__main__":
    asyncio.run(main())
