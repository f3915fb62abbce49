"""Steps that are methods: the object is there when the step runs, and is no part of the record."""

from __future__ import annotations

from dataclasses import dataclass

import onward
from onward import App, Retry, Signal, step, workflow
from tests.kit.watching import check_database, until_state

go = Signal("go")


class Gateway:
    """Something that cannot be stored."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.calls: list[str] = []
        self.socket = object()

    @step(retry=Retry(attempts=2, delay=0))
    async def send(self, text: str) -> str:
        self.calls.append(text)
        if len(self.calls) == 1:
            raise ConnectionError("at first")
        return f"{self.address} has {text}"

    @step
    def count(self, *, twice: bool = False) -> int:
        return len(self.calls) * (2 if twice else 1)

    @staticmethod
    @step
    async def plain(n: int) -> int:
        return n


class Printer:
    """Another one with a step of the same name."""

    @step
    async def send(self, text: str) -> str:
        return f"printed {text}"


@dataclass
class Case:
    """What a workflow is done with."""

    gateway: Gateway


case = Case(Gateway("nowhere"))


@workflow
async def letters() -> list[str | int]:
    told: list[str | int] = [
        await case.gateway.send("a"),
        await case.gateway.send.options(key="b")("b"),
        await case.gateway.count(twice=True),
        await Gateway.plain(7),
        await Printer().send("c"),
    ]
    await go.wait()
    return told


async def test_a_method_is_recorded_without_its_object_and_read_back(app: App) -> None:
    case.gateway = Gateway("here")
    async with app:
        async with app.worker():
            run = await app.start(letters)
            await until_state(run, "waiting")
        assert case.gateway.calls == ["a", "a", "b"]
        case.gateway = Gateway("another place")  # replay asks it for nothing
        async with app.worker():
            await run.signal(go)

            told = await run.result(timeout="60s")
        assert told == ["here has a", "here has b", 6, 7, "printed c"]
        assert case.gateway.calls == []
        await check_database(app)


async def test_outside_a_run_a_method_is_a_plain_call() -> None:
    gateway = Gateway("here")
    gateway.calls.append("before")

    assert await gateway.send("a") == "here has a"
    assert await Gateway.send(gateway, "b") == "here has b"
    assert await gateway.count() == gateway.count.fn() == 3


@workflow
async def by_its_class() -> str:
    return await Gateway.send(case.gateway, "a")


async def test_a_method_that_is_called_by_its_class_says_what_is_wrong(memory: App) -> None:
    async with memory, memory.worker():
        try:
            await memory.run(by_its_class)
        except onward.errors.RunFailed as failed:
            assert "self" in str(failed)  # noqa: PT017 - what it says is the question
        else:
            raise AssertionError("a gateway cannot be stored")
