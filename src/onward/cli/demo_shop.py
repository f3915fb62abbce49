"""A small shop, which `onward demo` runs."""

import asyncio
from pathlib import Path

from onward import App, effect, step, workflow

app = App("shop.db")


@step
async def reserve(item: str) -> str:
    with Path("reserved").open("a") as file:  # a line for each time that this is executed
        file.write(f"{item}\n")
    return f"{item} is reserved"


@step
async def pack(item: str) -> str:
    Path("packing").touch()
    while not Path("hands_free").exists():  # the first worker is killed while it waits here
        await asyncio.sleep(0.05)
    return f"{item} is packed"


@effect
async def charge(cents: int) -> str:
    raise ConnectionError("the bank hung up")  # has it charged the card?


@workflow
async def order(cents: int) -> str:
    await reserve("a cup")
    await pack("a cup")
    receipt = await charge(cents)
    return f"paid, receipt {receipt}"
