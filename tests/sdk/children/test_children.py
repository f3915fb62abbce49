"""Children that are awaited: their results, errors and ends, and the options they are given."""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Retry, Signal, register_error, step, workflow
from onward.codec import StepFailed
from onward.errors import Conflict, NotInBody, RunCancelled, RunFailed, Unencodable
from tests.kit.watching import (
    children_of,
    until,
    until_idle,
    until_open,
    until_started,
    until_state,
)

if TYPE_CHECKING:
    from onward import App, Run

answer = Signal("answer", int)
farewell = Signal("farewell", int)
SOON = Retry(attempts=3, delay="1ms")
ONCE = Retry(attempts=1)


@register_error
class PearsSoldOut(Exception):
    """An error that comes back as itself."""


tried: dict[str, int] = {}


@step(retry=ONCE)
async def fail_at_first(name: str) -> str:
    tried[name] = tried.get(name, 0) + 1
    if tried[name] == 1:
        raise LookupError(f"{name} failed at first")
    return name


@step
async def count_up(name: str) -> int:
    tried[name] = tried.get(name, 0) + 1
    return tried[name]


@pytest.fixture(autouse=True)
def _nothing_tried() -> None:
    tried.clear()


class PearRotten(Exception):
    """An error that is neither built in nor registered."""


@workflow
async def say(value: Any) -> Any:
    return value


@workflow
async def ask(extra: int) -> int:
    return extra + await answer.wait()


@workflow
async def go_wrong(how: str) -> None:
    if how == "registered":
        raise PearsSoldOut("no more pears", 7)
    if how == "wrapped":
        raise RunFailed("other", "logic", "an error of ours, about another run")
    if how == "built in":
        raise KeyError("pear")
    raise PearRotten("pear")


@workflow
async def go_round(n: int) -> int:
    await count_up("round")
    if n:
        onward.continue_as_new(n - 1)
    return await count_up("round")


@workflow
async def recover(name: str) -> str:
    await count_up(f"before {name}")
    return await fail_at_first(name)


@workflow
async def parent_of(value: Any) -> list[Any]:
    return [await say(value)]


async def ended(app: App, run: Run[Any]) -> list[tuple[str, str]]:
    """Return name and state of every child, in order."""
    return [(child.name, child.state) for child in await children_of(app, run)]


async def test_a_child_gives_its_result_to_the_run_that_awaits_it(app: App) -> None:
    async with app, app.worker():
        run = await app.start(parent_of, {"a": 1})

        assert await run.result(timeout="60s") == [{"a": 1}]
        [child] = await children_of(app, run)
        assert (child.parent, child.root, child.state) == (run.uid, run.uid, "succeeded")
        await until_idle(app)


async def test_a_falsy_result_of_a_child_is_a_result(app: App) -> None:
    async with app, app.worker():
        falsy: list[Any] = [None, False, 0, "", [], {}]
        for value in falsy:
            run = await app.start(parent_of, value)
            found = await run.result(timeout="60s")
            assert found == [value]
            assert type(found[0]) is type(value)


@workflow
async def see_error(how: str) -> list[str]:
    try:
        await go_wrong(how)
    except PearsSoldOut as error:
        return ["registered", *map(str, error.args)]
    except RunFailed as error:
        cause = error.__cause__
        return ["RunFailed", type(cause).__name__, getattr(cause, "type", ""), str(cause)]
    except KeyError as error:
        return [repr(error)]
    return ["nothing"]


async def test_a_built_in_error_of_a_child_is_raised_itself(app: App) -> None:
    async with app, app.worker():
        assert await app.run(see_error, "built in") == ["KeyError('pear')"]


async def test_a_registered_error_of_a_child_is_raised_itself(app: App) -> None:
    async with app, app.worker():
        assert await app.run(see_error, "registered") == ["registered", "no more pears", "7"]


async def test_any_other_error_of_a_child_is_the_cause_of_its_failure(app: App) -> None:
    async with app, app.worker():
        found = await app.run(see_error, "other")
        assert found[:3] == ["RunFailed", StepFailed.__name__, f"{__name__}.PearRotten"]
        found = await app.run(see_error, "wrapped")
        assert found[:2] == ["RunFailed", "RunFailed"]


@workflow
async def fail_with(how: str, child_id: str | None) -> None:
    await go_wrong.options(id=child_id)(how)


async def first_child(app: App, run: Run[Any]) -> str:
    [child] = await app.runs(parent=run.id)
    return child.id


@pytest.mark.parametrize("child_id", [None, "pears 7"])
async def test_the_error_of_a_parent_says_which_child_failed(
    app: App, child_id: str | None
) -> None:
    async with app, app.worker():
        run = await app.start(fail_with, "other", child_id)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout="60s")
        child = await first_child(app, run)
        assert child == (child_id or child)
        shown = f"onward runs show {quote(child)}"
        told = (await run.info()).error
        inner = f"run {child} failed (logic): {__name__}.PearRotten: pear"
        assert told == f"{inner}. See its history: {shown}"
        assert str(failed.value).startswith(
            f"run {run.id} failed (logic): {inner}. See its history"
        )


async def test_a_registered_error_says_from_which_runs_it_comes(app: App) -> None:
    async with app, app.worker():
        run = await app.start(fail_with, "registered", None)
        with pytest.raises(PearsSoldOut) as failed:
            await run.result(timeout="60s")
        assert failed.value.__notes__ == [
            f"This error ended run {each}: onward runs show {each}"
            for each in (await first_child(app, run), run.id)
        ]


@workflow
async def told_by_a_stopped_child() -> str:
    try:
        await ask.options(id="endless")(1)
    except RunCancelled as cancelled:
        return str(cancelled)
    return "nothing"


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_body_gets_the_id_of_the_child_that_was_stopped(app: App, is_known: bool) -> None:
    async with app, app.worker(warm=1000 if is_known else 0):
        run = await app.start(told_by_a_stopped_child)
        await until_state(await until_started(app, "endless"), "waiting")
        await app.cancel("endless", force=True)
        told = await run.result(timeout="60s")
        assert told.startswith("run endless has no result: it was cancelled (")


@workflow
async def see_error_twice(how: str) -> list[list[str]]:
    first = await see_error.fn(how)
    await answer.wait()
    return [first, await see_error.fn(how)]


async def test_an_error_of_a_child_is_the_same_when_it_is_replayed(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(see_error_twice, "other")
            await until_state(run, "waiting")
        async with app.worker():
            await run.signal(answer, 1)
            one, other = await run.result(timeout="60s")
        assert one == other
        assert one[2] == f"{__name__}.PearRotten"
        await until_idle(app)


@workflow
async def see_end(child: str) -> list[str]:
    try:
        await ask.options(id=child)(1)
    except RunCancelled as cancelled:
        return [cancelled.run, cancelled.state, cancelled.reason]
    return ["nothing"]


@pytest.mark.parametrize("force", [False, True])
async def test_a_child_that_is_cancelled_says_so(app: App, force: bool) -> None:
    async with app, app.worker():
        run = await app.start(see_end, "child")
        child = await until_started(app, "child")
        await until_state(child, "waiting")

        assert await child.cancel(force=force)

        reason = "forced" if force else "operator"
        assert await run.result(timeout="60s") == ["child", "cancelled", reason]
        await until_idle(app)


@workflow
async def see_deadline() -> list[str]:
    try:
        await ask.options(deadline="50ms")(1)
    except RunCancelled as cancelled:
        return [cancelled.state, cancelled.reason]
    return ["nothing"]


async def test_a_child_that_misses_its_deadline_says_so(app: App) -> None:
    async with app, app.worker():
        assert await app.run(see_deadline) == ["timed_out", "deadline"]
        await until_idle(app)


# --- several runs that are one child --------------------------------------------------------------


@workflow
async def count_rounds(rounds: int) -> int:
    return await go_round(rounds)


async def test_a_child_that_goes_on_as_a_new_run_reports_once_at_its_end(app: App) -> None:
    async with app, app.worker():
        run = await app.start(count_rounds, 3)

        assert await run.result(timeout="60s") == 5
        assert await ended(app, run) == [("go_round", "succeeded")] * 4
        assert len(await app._store.look([run.uid])) == 1
        await until_idle(app)


@workflow
async def wait_for_recovery(name: str) -> str:
    return await recover.options(retry=SOON)(name)


async def test_a_child_that_is_retried_reports_once_and_repeats_nothing(app: App) -> None:
    async with app, app.worker():
        run = await app.start(wait_for_recovery, "pear")

        assert await run.result(timeout="60s") == "pear"
        assert await ended(app, run) == [("recover", "failed"), ("recover", "succeeded")]
        assert tried == {"before pear": 1, "pear": 2}
        messages = (await app._store.look([run.uid]))[run.uid]
        assert [message.kind for message in messages] == ["child"]
        await until_idle(app)


@workflow
async def wait_in_vain() -> str:
    try:
        await go_wrong.options(retry=SOON)("always")
    except RunFailed as failed:
        return str(failed)
    return "nothing"


async def test_a_child_that_fails_at_every_attempt_reports_the_last_error(app: App) -> None:
    async with app, app.worker():
        run = await app.start(wait_in_vain)

        assert "PearRotten" in await run.result(timeout="60s")
        assert await ended(app, run) == [("go_wrong", "failed")] * 3
        await until_idle(app)


# --- a parent that is retried ---------------------------------------------------------------------


@workflow
async def count(name: str) -> int:
    return await count_up(f"child {name}")


@workflow
async def fail_after_children(name: str) -> list[Any]:
    first = await count(name)
    await onward.sleep("1ms")
    last = await fail_at_first(name)
    return [first, await count(name), last]


async def test_a_parent_that_is_retried_repeats_no_finished_child(app: App) -> None:
    async with app, app.worker():
        run = await app.start(fail_after_children.options(retry=SOON), "pear")

        assert await run.result(timeout="60s") == [1, 2, "pear"]
        assert tried == {"child pear": 2, "pear": 2}
        await until_idle(app)


@workflow
async def fail_beside_child(name: str) -> list[Any]:
    async def beside() -> str:
        await onward.sleep("20ms")
        return await fail_at_first(name)

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(ask.options(id=f"child of {name}")(1))
        other = group.create_task(beside())
    return [asked.result(), other.result()]


async def test_a_retried_parent_may_use_the_id_of_a_child_again_that_ended_with_it(
    app: App,
) -> None:
    async with app, app.worker():
        run = await app.start(fail_beside_child.options(id="parent", retry=SOON), "pear")
        await until_started(app, "child of pear")

        async def is_replaced() -> bool:
            child = await (await app.get("child of pear")).info()
            return child.parent != run.uid and child.state == "waiting"

        await until(is_replaced)
        await app.signal("child of pear", answer, 4)

        assert await run.result(timeout="60s") == [5, "pear"]
        assert await ended(app, run) == [("ask", "cancelled")]
        await until_idle(app)


@workflow
async def hang_on() -> int:
    try:
        return await answer.wait()
    finally:
        await farewell.wait()


@workflow
async def fail_beside_one_who_hangs_on(name: str) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        hanging = group.create_task(hang_on.options(id="hanging on")())
        await onward.sleep("20ms")
        other = await fail_at_first(name)
    return [hanging.result(), other]


async def test_a_retried_parent_waits_for_the_end_of_its_elder_child_without_a_worker(
    app: App,
) -> None:
    async with app:
        async with asyncio.timeout(60), app.worker():
            run = await app.start(fail_beside_one_who_hangs_on.options(retry=SOON), "pear")
            elder = await until_started(app, "hanging on")
            await until_open(elder, "farewell")
            await until_open(await app.get(run.id), "hang_on")
        async with app.worker():
            await app.signal(elder.uid, farewell, 1)

            async def is_replaced() -> bool:
                child = await (await app.get("hanging on")).info()
                return child.uid != elder.uid and child.state == "waiting"

            await until(is_replaced)
            await app.signal("hanging on", answer, 4)
            await app.signal("hanging on", farewell, 1)
            assert await run.result(timeout="60s") == [4, "pear"]
            await until_idle(app)


# --- options --------------------------------------------------------------------------------------


@workflow
async def name_child(child: str) -> str:
    try:
        return str(await say.options(id=child)("it is mine"))
    except Conflict as conflict:
        return f"conflict: {conflict.fact}"


async def test_the_id_of_a_child_is_its_name_everywhere(app: App) -> None:
    async with app, app.worker():
        assert await app.run(name_child, "my child") == "it is mine"
        assert (await (await app.get("my child")).info()).name == "say"


async def test_the_id_of_another_run_is_a_conflict_in_the_body(app: App) -> None:
    async with app, app.worker():
        await app.run(say.options(id="taken"), "it is mine")

        assert (await app.run(name_child, "taken")).startswith("conflict: it belongs to a run")
        await until_idle(app)


@workflow
async def name_two_children() -> list[str]:
    return [await name_child.fn("one"), await name_child.fn("one")]


async def test_an_id_serves_for_one_child_of_a_run(app: App) -> None:
    async with app, app.worker():
        found = await app.run(name_two_children)
        assert found[0] == "it is mine"
        assert found[1].startswith("conflict")


@workflow
async def send_child(queue: str) -> str:
    return str(await say.options(queue=queue, priority=7, tags=["big"])("there"))


async def test_a_child_goes_to_its_own_queue_with_its_own_priority_and_tags(app: App) -> None:
    async with app, app.worker():
        run = await app.start(send_child, "elsewhere")
        await until_state(run, "waiting")
        [child] = await children_of(app, run)
        assert (child.queue, child.priority, child.tags) == ("elsewhere", 7, ("big",))
        assert child.state == "ready"

        async with app.worker(queues=["elsewhere"], tags=["big"]):
            assert await run.result(timeout="60s") == "there"
        await until_idle(app)


@workflow
async def delay_child() -> str:
    before = onward.now()
    await say.options(delay="80ms")("late")
    return str((onward.now() - before).total_seconds() >= 0.08)


async def test_a_child_may_begin_later(app: App) -> None:
    async with app, app.worker():
        assert await app.run(delay_child) == "True"


@workflow
async def give_unfit() -> str:
    try:
        await say(object())
    except Unencodable as refused:
        return str(refused)
    return "taken"


async def test_an_argument_that_cannot_be_kept_is_refused_in_the_body(app: App) -> None:
    async with app, app.worker():
        run = await app.start(give_unfit)
        assert "say(value)" in await run.result(timeout="60s")
        assert await children_of(app, run) == []


@step
async def call_workflow() -> str:
    try:
        return str(await say("from a step"))
    except NotInBody as refused:
        return str(refused)


@workflow
async def step_calls_workflow() -> str:
    return await call_workflow()


async def test_a_step_has_no_children(app: App) -> None:
    async with app, app.worker():
        assert "was called in a step, but only a workflow can have children" in await app.run(
            step_calls_workflow
        )


async def test_outside_a_run_a_workflow_is_its_function() -> None:
    assert await parent_of(3) == [3]
