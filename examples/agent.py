"""An agent: a model requests tools, they run in parallel, and the model gets their results.

python examples/agent.py

The model is a fake, so you need no network and no API key. Every response of the model and of a
tool is recorded: after a crash you pay for no token twice.
"""

import asyncio
from dataclasses import dataclass, field

import onward
from onward import App, Retryable, step, workflow


@dataclass
class Call:
    tool: str
    about: str


@dataclass
class Reply:
    text: str = ""
    calls: list[Call] = field(default_factory=list)


@step(timeout="1m")
async def model(messages: list[str]) -> Reply:
    await asyncio.sleep(0.3)  # replace this with your model client
    onward.current().counters.add("tokens", sum(len(message.split()) for message in messages))
    if len(messages) == 1:
        return Reply(
            calls=[Call("weather", "Oslo"), Call("weather", "Lima"), Call("fares", "Oslo")]
        )
    if len(messages) == 4:
        return Reply(calls=[Call("fares", "Lima")])
    return Reply("Lima: it is warmer there, and the flight is 120 more.")


@step(limit=5)  # at most five at a time, across all agents and workers
async def weather(city: str) -> str:
    await asyncio.sleep(0.2)
    return f"{city}: {'21' if city == 'Lima' else '4'} degrees"


@step
async def fares(city: str) -> str:
    if city == "Oslo" and onward.current().attempt == 1:
        raise Retryable("the fares are busy", after="200ms")  # retried, not before that
    return f"{city}: {'620' if city == 'Lima' else '500'} euros"


TOOLS = {tool.name: tool for tool in (weather, fares)}


@workflow
async def agent(question: str) -> str:
    messages = [question]
    while True:
        reply = await model(messages)
        if not reply.calls:
            return reply.text
        messages += await asyncio.gather(*(TOOLS[call.tool](call.about) for call in reply.calls))


async def main() -> None:
    app = App("agent.db")
    async with app, app.worker():
        run = await app.start(agent, "Where should we meet in June, Oslo or Lima?")
        answer = await run.result(timeout="1m")
        for record in await run.history():
            if record.seq:  # failed attempts and notes have no number
                print(f"  {record.seq}  {record.name:8} attempt {record.attempt}")
        print(answer)
        print(f"{(await run.info()).counters['tokens']} tokens were read")


if __name__ == "__main__":
    asyncio.run(main())
