"""What type checkers see of the front door: signatures are kept, results have types."""

from typing import Any, assert_type

from onward import App, Run, Signal, step, workflow


@step
async def length(text: str, *, twice: bool = False) -> int:
    return len(text) * (2 if twice else 1)


@step(timeout="1m")
def upper(text: str) -> str:
    return text.upper()


@workflow
async def measure(text: str) -> int:
    return assert_type(await length(text), int)


@workflow(name="shout", queue="loud")
async def shout(text: str) -> str:
    return assert_type(await upper(text), str)


class Shop:
    @step
    async def price(self, item: str) -> float:
        return 1.0 * len(item)


answer = Signal("answer", bool)


async def use(app: App) -> None:
    run = await app.start(measure.options(id="m"), "text")
    assert_type(run, Run[int])
    assert_type(await run.result(timeout="1s"), int)
    assert_type(await app.run(shout, "text"), str)
    assert_type(await app.get("m"), Run[Any])
    assert_type(await Shop().price("tea"), float)
    assert_type(await answer.wait(timeout="1d"), bool)
    await run.signal(answer, True)

    await app.start(measure, 1)  # type: ignore[arg-type]  # the argument is a text
    await app.start(measure)  # type: ignore[call-arg]  # it has no default
    length.options(id="x")  # type: ignore[call-arg]  # steps have no id
    measure.options(key="x")  # type: ignore[call-arg]  # workflows have no key
    await Shop().price(1)  # type: ignore[arg-type]  # the argument is a text
