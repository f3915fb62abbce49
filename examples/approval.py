"""Human approval: a run waits for a decision, and escalates if none arrives.

python examples/approval.py

The waits are short here. In production they take days. A waiting run costs nothing: it holds no
slot, thread or connection, and it survives restarts and deploys.
"""

import asyncio
from dataclasses import dataclass

from onward import App, Signal, step, workflow


@dataclass
class Decision:
    is_yes: bool
    by: str


decision = Signal("decision", Decision)


@step
async def ask(whom: str, question: str) -> None:
    print(f"  to {whom}: {question}", flush=True)


@step
async def pay(what: str, cents: int) -> str:
    return f"{cents / 100:.2f} paid for {what}"


@workflow
async def expense(what: str, cents: int) -> str:
    for whom in ("the team lead", "the boss"):
        await ask(whom, f"may we spend {cents / 100:.2f} on {what}?")
        try:
            answer = await decision.wait(timeout="1s")  # or "3d"
        except TimeoutError:
            continue  # no answer: ask the next person
        if answer.is_yes:
            return f"{await pay(what, cents)}, said {answer.by}"
        return f"nothing paid for {what}, said {answer.by}"
    return f"no answer about {what}, so nothing is paid"


async def main() -> None:
    app = App("approval.db")
    async with app, app.worker():
        tea = await app.start(expense, "tea", 700)
        yacht = await app.start(expense, "a yacht", 90_000_000)
        plant = await app.start(expense, "a plant", 1_500)

        # The answer can come from anywhere: a web page, a chat, another process. A signal is
        # stored, so it may also arrive before the run waits for it.
        await tea.signal(decision, Decision(is_yes=True, by="Ada"))
        await app.signal(yacht.id, decision, Decision(is_yes=False, by="Grace"))

        for run in (tea, yacht, plant):
            print(await run.result(timeout="1m"), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
