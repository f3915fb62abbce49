"""A webhook relay: each event is forwarded once, although the receiver's reply is lost.

python examples/webhook_relay.py

The events of one account are forwarded in order, and those of different accounts at the same time.
"""

import asyncio
from dataclasses import dataclass

from onward import App, Applied, Consumer, NotApplied, Pipeline, Prepared, effect, effect_key
from onward.pipelines import Input, MutateContext, PrepareContext


@dataclass(frozen=True)
class Hook:
    account: str
    text: str


HOOKS = [Hook("acme", "paid"), Hook("acme", "shipped"), Hook("zen", "paid")]
forwarded: dict[str, str] = {}
"""What the receiver has, by key: it remembers the keys, so that its state can be looked up."""

relay = Pipeline("relay", parallel=True)
incoming = relay.topic("hook.received", Hook, max_pending=10_000)


async def look_up(account: str, text: str, *, key: str) -> Applied[str] | NotApplied:
    """Ask the receiver whether it got a call: this is how an unknown outcome is settled."""
    print(f"    is {account}: {text} there? {key in forwarded}", flush=True)
    return Applied("found") if key in forwarded else NotApplied()


@effect(reconcile=look_up, timeout="1s", settle="0s")
async def forward(account: str, text: str) -> str:
    """Send a hook to the receiver; the reply to the first one is lost."""
    key = effect_key()
    is_first = not forwarded
    forwarded[key] = f"{account}: {text}"
    print(f"    forwarded {forwarded[key]}", flush=True)
    if is_first:
        raise ConnectionError("no reply")
    return "thanks"


@relay.consumer(subscribes=[incoming])
class Forward(Consumer[None, Hook]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[Hook]:
        events = await ctx.peek(incoming, limit=1)  # of one account: that is the key
        if not events:
            return Prepared()
        hook = events[0].payload
        return Prepared(reserve=events, data=hook, title=f"Forward {hook.text} of {hook.account}")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Hook]) -> None:
        await forward(prepared.data.account, prepared.data.text)


async def receive(app: App, number: int, hook: Hook) -> None:
    """Accept a webhook, as a view of your web framework does; a repeated one changes nothing."""
    source = Input("shop", "webhook", str(number), f"{hook.text} of {hook.account}")
    await app.publish(incoming, hook, id=str(number), key=hook.account, input=source)


async def consumed(app: App) -> int:
    """Return how many events were handled."""
    return (await app.topics.counts(incoming))["relay.Forward"]["consumed"]


async def main() -> None:
    app = App("webhook_relay.db")
    async with app, app.worker(pipelines=[relay]):
        for number, hook in enumerate(HOOKS):
            await receive(app, number, hook)
            await receive(app, number, hook)  # senders of webhooks repeat them
        while await consumed(app) < len(HOOKS):  # noqa: ASYNC110 - the worker consumes them
            await asyncio.sleep(0.05)
        for each in await app.inputs.list():
            print(f"{each.title} is {each.state}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
