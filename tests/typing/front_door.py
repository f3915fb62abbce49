"""What type checkers see of the front door: signatures are kept, results have types."""

from typing import Any, assert_type

from onward import (
    App,
    Fatal,
    Retry,
    Retryable,
    Run,
    RunInfo,
    Signal,
    Step,
    StepFailed,
    Workflow,
    register_error,
    step,
    workflow,
)


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


@register_error
class Refused(Exception):
    code = 7


@register_error(name="lost")
class Lost(Exception):
    pass


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
    measure.options(timeout="1s")  # type: ignore[call-arg]  # workflows have no timeout
    await Shop().price(1)  # type: ignore[arg-type]  # the argument is a text


def decorators_keep_signatures() -> None:
    measured: Workflow[[str], int] = measure.options(id="a", delay="1h")
    uppered: Step[[str], str] = upper.options(key="a", retry=Retry(attempts=5))
    assert_type((measured.definition.strict, uppered.name), tuple[bool, str])
    assert_type(Refused().code, int)  # a registered error is the type that it was
    assert_type(Lost("it"), Lost)

    step(retry=3)  # type: ignore[call-overload]  # a policy is a Retry
    workflow(queue=1)  # type: ignore[call-overload]  # a queue is named by text
    workflow(len)  # type: ignore[arg-type]  # it is not async
    measure.options(on_conflict="again")  # type: ignore[arg-type]  # it is one of three words
    measure.options(at="tomorrow")  # type: ignore[arg-type]  # that is no time


async def look(app: App, run: Run[int]) -> None:
    info = await run.info()
    assert_type(info, RunInfo)
    assert_type((info.id, info.state, info.error), tuple[str, str, str | None])
    assert_type(await run.state(), str)
    assert_type(await app.runs(state="failed"), list[RunInfo])
    assert_type(await app.counts(), dict[str, int])
    assert_type((await run.history())[0].name, str)
    assert_type(await app.pause("m"), bool)
    assert_type(await app.resume("m"), bool)
    assert_type(await app.retry("m"), Run[Any])
    assert_type(await app.fork("m", "length", result=3), Run[Any])
    assert_type((await app.unserved())[0].why, str)
    if not await run.cancel(grace="10s"):
        await app.cancel("m", force=True)

    await run.result("1s")  # type: ignore[call-arg]  # the timeout is given by name
    await app.signal(answer, True)  # type: ignore[arg-type]  # the id of a run comes first


def raise_to_tell_the_engine(failed: StepFailed) -> Exception:
    assert_type((failed.type, failed.message, failed.traceback), tuple[str, str, str])
    if failed.type == "OSError":
        return Retryable("busy", after="30s")
    return Fatal("no use")
