"""Code that changed under open runs: what goes on, what parks, and how it gets going again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import RunPaused
from onward.sdk import step as steps
from tests.kit.deploys import SECONDS, all_of, deployed, shipped, waits_for
from tests.kit.watching import check_database, info_of, until, until_state

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward import Run, Workflow

    Code = Callable[[], Coroutine[Any, Any, Any]]

go = Signal("go", str)
early = Signal("early", str)


@step
async def fetch(what: str) -> str:
    return f"{what}!"


@step
async def pack_up(what: str) -> str:
    return f"[{what}]"


@step
async def ship(what: str) -> str:
    return f"{what} is gone"


@workflow
async def helper(what: str) -> str:
    return f"{what} helped"


# --- what is deployed first, and waits for `go` ---------------------------------------------------


async def plain() -> list[str]:
    return [await fetch("a"), await pack_up("b"), await go.wait()]


async def with_child() -> list[str]:
    return [await helper("a"), await go.wait()]


async def with_signal() -> list[str]:
    return [await early.wait(), await go.wait()]


async def with_start() -> list[str]:
    await onward.start(helper, "a")
    return [await go.wait()]


# --- what is deployed then ------------------------------------------------------------------------


async def renamed() -> list[str]:
    return [await ship("a"), await pack_up("b"), await go.wait()]


async def swapped() -> list[str]:
    packed = await pack_up("b")
    return [await fetch("a"), packed, await go.wait()]


async def removed() -> list[str]:
    return [await fetch("a"), await go.wait()]


async def inserted() -> list[str]:
    found = await fetch("a")
    sent = await ship("c")
    return [found, sent, await pack_up("b"), await go.wait()]


async def other_arguments() -> list[str]:
    return [await fetch("a"), await pack_up("x"), await go.wait()]


async def other_kind() -> list[str]:
    return [await fetch("a"), await deployed(helper.fn, name="pack_up")("b"), await go.wait()]


async def waits_only() -> list[str]:
    onward.current().attributes["new"] = True
    onward.current().counters.add("new")
    return [await go.wait()]


async def waits_no_more() -> list[str]:
    return [await fetch("a"), await pack_up("b")]


async def does_more() -> list[str]:
    onward.current().attributes["new"] = True
    await onward.start(helper, "new")
    return [await ship("c"), await go.wait()]


async def does_more_first() -> list[str]:
    sent = await ship("c")
    return [sent, await helper("a"), await go.wait()]


class Case(NamedTuple):
    """A deploy and what becomes of a run that was open; a text is what a parked one says of it."""

    old: Code
    new: Code
    comes_to: list[str] | str


STRICT = {
    "renamed": Case(plain, renamed, "recorded: step 'fetch'"),
    "swapped": Case(plain, swapped, "recorded: step 'fetch'"),
    "removed": Case(plain, removed, "recorded: step 'pack_up'"),
    "inserted": Case(plain, inserted, "recorded: step 'pack_up'"),
    "other arguments": Case(plain, other_arguments, "recorded: step 'pack_up'"),
    "other kind": Case(plain, other_kind, "recorded: step 'pack_up'"),
    "removed at the end": Case(plain, waits_no_more, "recorded: signal 'go'"),
    "removed child": Case(with_child, waits_only, "recorded: child 'helper'"),
    "removed start": Case(with_start, waits_only, "recorded: start 'helper'"),
}
PARKS = {
    "inserted before a child": Case(with_child, does_more_first, "recorded: child 'helper'"),
    "other arguments": Case(plain, other_arguments, "now:      step 'pack_up'"),
    "other kind": Case(plain, other_kind, "now:      child 'pack_up'"),
    "removed child": Case(with_child, does_more, "recorded: child 'helper'"),
    "removed signal": Case(with_signal, does_more, "recorded: signal 'early'"),
    "removed start": Case(with_start, does_more, "recorded: start 'helper'"),
    "removed child before a wait": Case(with_child, waits_only, "recorded: child 'helper'"),
    "removed signal before a wait": Case(with_signal, waits_only, "recorded: signal 'early'"),
}
GOES_ON = {
    "inserted": Case(plain, inserted, ["a!", "c is gone", "[b]", "now"]),
    "swapped": Case(plain, swapped, ["a!", "[b]", "now"]),
    "removed": Case(plain, removed, ["a!", "now"]),
    "renamed": Case(plain, renamed, ["a is gone", "[b]", "now"]),
    "removed wait": Case(plain, waits_no_more, ["a!", "[b]"]),
}
DROPPED = {
    "swapped": ":fetch#1",
    "removed": ":pack_up#1",
    "renamed": ":fetch#1",
    "removed wait": ":go#1",
}


async def is_quiet(app: App) -> bool:
    return {info.state for info in await app.runs()} <= {"waiting", "succeeded"}


async def waiting_for_go(app: App, old: Workflow[[], Any]) -> Run[Any]:
    """Start a run with old code, and send `go` when that code is gone."""
    async with app.worker(workflows=[old, helper]):
        run = await app.start(old.options(id="run"))
        await run.signal(early, "early")
        await waits_for(run, "go")
        await until(lambda: is_quiet(app))
    await run.signal(go, "now")
    return run


async def was_claimed(app: App, run: Run[Any], fence: int) -> bool:
    return bool((await app._store.run(run.uid)).fence > fence)


async def parked(app: App, run: Run[Any], *new: Workflow[..., Any]) -> str:
    """Let new code find that it does not fit, and return what the parked run says."""
    async with app.worker(workflows=[*new, helper]):
        await until_state(run, "paused")
    info = await run.info()
    assert (info.state, info.reason) == ("paused", "divergence")
    assert info.error is not None
    return info.error


@pytest.mark.parametrize("name", STRICT)
async def test_strict_code_parks_whatever_was_changed(app: App, name: str) -> None:
    case = STRICT[name]
    async with app:
        run = await waiting_for_go(app, deployed(case.old, strict=True))
        before = await all_of(app)

        told = await parked(app, run, deployed(case.new, strict=True))

        assert str(case.comes_to) in told
        assert await all_of(app) == before
        await check_database(app)


@pytest.mark.parametrize("name", PARKS)
async def test_what_reached_others_or_has_other_arguments_parks(app: App, name: str) -> None:
    case = PARKS[name]
    async with app:
        run = await waiting_for_go(app, deployed(case.old))
        before = await all_of(app)

        told = await parked(app, run, deployed(case.new))

        assert str(case.comes_to) in told
        assert await all_of(app) == before
        assert (await run.info()).attributes == {}
        await check_database(app)


@pytest.mark.parametrize("name", GOES_ON)
async def test_what_was_inserted_swapped_or_removed_goes_on_with_a_report(
    app: App, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    case = GOES_ON[name]
    caplog.set_level(logging.WARNING, "onward.run")
    async with app:
        run = await waiting_for_go(app, deployed(case.old))

        async with app.worker(workflows=[deployed(case.new)]):
            assert await run.result(timeout=SECONDS) == case.comes_to

    reports = [r.__dict__ for r in caplog.records if getattr(r, "event", "") == "run.unread"]
    told = [(report["run"], report["uid"], report["unread"]) for report in reports]
    assert told == ([("run", run.uid, DROPPED[name])] if name in DROPPED else [])
    assert "a!" not in caplog.text


async def test_a_parked_run_shows_what_was_recorded_and_asked_and_where(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))

        told = await parked(app, run, deployed(other_arguments))

        assert "- recorded: step 'pack_up' at :pack_up#1 (arguments " in told
        assert "+ now:      step 'pack_up' (arguments " in told
        assert "test_divergence.py, line " in told
        assert 'return [await fetch("a"), await pack_up("x"), await go.wait()]' in told
        with pytest.raises(RunPaused, match="recorded: step 'pack_up'"):
            await run.result(timeout=SECONDS, raise_paused=True)


async def test_a_parked_run_says_what_to_do_if_nothing_was_deployed(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))

        told = await parked(app, run, deployed(other_arguments))

        assert (
            "If you fixed a file other than the workflow's, resume the run: "
            "onward runs resume run\n"
            "If you did not deploy anything, the body is not deterministic: use onward.now(), "
            "onward.random(), onward.uuid()."
        ) in told


async def test_a_new_parameter_that_parks_a_run_is_named(app: App) -> None:
    @step(name="weigh")
    async def weigh(what: str) -> str:
        return what

    @step(name="weigh")
    async def weigh_in(what: str, unit: str) -> str:
        return f"{what} in {unit}"

    async def old() -> list[str]:
        return [await weigh("a"), await go.wait()]

    async def new() -> list[str]:
        return [await weigh_in("a", "kg"), await go.wait()]

    async with app:
        run = await waiting_for_go(app, deployed(old))

        told = await parked(app, run, deployed(new))

        assert "If you added the parameter unit, give it a default." in told


async def test_a_new_parameter_with_its_default_value_parks_nothing(app: App) -> None:
    @step(name="weigh")
    async def weigh(what: str) -> str:
        return what

    @step(name="weigh")
    async def weigh_in(what: str, unit: str = "kg") -> str:
        return f"{what} in {unit}"

    async def old() -> list[str]:
        return [await weigh("a"), await go.wait()]

    async def new() -> list[str]:
        return [await weigh_in("a", "kg"), await go.wait()]

    async with app:
        run = await waiting_for_go(app, deployed(old))
        async with app.worker(workflows=[deployed(new)]):
            await run.signal(go, "now")
            assert await run.result(timeout=SECONDS) == ["a", "now"]


async def test_a_parked_run_names_what_was_asked_for_too_early(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain, strict=True))

        told = await parked(app, run, deployed(swapped, strict=True))

        assert (
            "the history has step 'fetch' (:fetch#1) where the code now has step 'pack_up'" in told
        )
        assert 'packed = await pack_up("b")' in told


async def test_a_parked_run_names_what_was_not_asked_for_once(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(with_child))

        told = await parked(app, run, deployed(waits_only))

        assert told.count("child 'helper'") == 2  # what is wrong, and what was recorded


@pytest.mark.parametrize("name", ["inserted", "removed", "removed at the end"])
async def test_strict_code_that_parks_shows_the_line_too(app: App, name: str) -> None:
    lines = {
        "inserted": 'sent = await ship("c")',
        "removed": 'return [await fetch("a"), await go.wait()]',
        "removed at the end": "async def waits_no_more() -> list[str]:",
    }
    case = STRICT[name]
    async with app:
        run = await waiting_for_go(app, deployed(case.old, strict=True))

        assert lines[name] in await parked(app, run, deployed(case.new, strict=True))


# --- getting it going -----------------------------------------------------------------------------


async def test_resume_gets_a_parked_run_going_under_code_that_fits(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))
        await parked(app, run, deployed(other_arguments))

        async with app.worker(workflows=[deployed(plain)]):
            assert await app.resume("run")
            assert await run.result(timeout=SECONDS) == ["a!", "[b]", "now"]
        assert (await run.info()).error is None


async def test_resume_under_code_that_does_not_fit_parks_it_again(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))
        first = await parked(app, run, deployed(other_arguments))
        before = (await run.history(), (await app._store.run(run.uid)).fence)

        async with app.worker(workflows=[deployed(other_arguments)]):
            await app.resume("run")
            await until(lambda: was_claimed(app, run, before[1]))
            await until_state(run, "paused")
        assert (await run.info()).error == first
        assert await run.history() == before[0]


async def test_a_fork_from_before_the_change_runs_under_the_new_code(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))
        new = deployed(other_arguments)
        await parked(app, run, new)

        async with app.worker(workflows=[new]):
            forked = await app.fork("run", "pack_up")
            assert await forked.result(timeout=SECONDS) == ["a!", "[x]", "now"]
        assert (await run.info()).uid == forked.uid
        assert (await info_of(app, run.uid)).state == "failed"
        await check_database(app)


async def test_a_retry_gets_a_parked_run_going_under_code_that_fits(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))
        await parked(app, run, deployed(other_arguments))

        async with app.worker(workflows=[deployed(plain)]):
            again = await app.retry("run")
            assert await again.result(timeout=SECONDS) == ["a!", "[b]", "now"]
        await check_database(app)


@pytest.mark.parametrize("code", [plain, other_arguments])
async def test_a_cancel_ends_a_parked_run_under_any_code(app: App, code: Code) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))
        await parked(app, run, deployed(other_arguments))

        async with app.worker(workflows=[deployed(code)]):
            assert await run.cancel()
            assert await until_state(run, "cancelled", "succeeded") == "cancelled"
        await check_database(app)


async def test_a_forced_cancel_ends_a_parked_run_without_any_worker(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(plain))
        await parked(app, run, deployed(other_arguments))

        assert await run.cancel(force=True)
        assert await run.state() == "cancelled"
        await check_database(app)


# --- new code by itself ---------------------------------------------------------------------------

SOURCE = """
async def flow():
    return [await fetch({what!r}), await go.wait()]
"""


def version(what: str) -> Workflow[[], Any]:
    return shipped(SOURCE.format(what=what), file=f"{what}.py", fetch=fetch, go=go)


async def test_new_code_tries_a_parked_run_by_itself(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, version("a"))
        assert "wrong.py, line 3: return [await fetch('wrong')" in await parked(
            app, run, version("wrong")
        )

        async with app.worker(workflows=[version("a")]):
            assert await run.result(timeout=SECONDS) == ["a!", "now"]


async def test_two_codes_that_do_not_fit_leave_a_parked_run_alone(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, version("a"))
        await parked(app, run, version("wrong"))
        fence = (await app._store.run(run.uid)).fence
        async with app.worker(workflows=[version("worse")]):
            await until(lambda: was_claimed(app, run, fence))
            await until_state(run, "paused")
        fence = (await app._store.run(run.uid)).fence

        for what in ("wrong", "worse", "wrong"):
            async with app.worker(workflows=[version(what)]) as worker:
                await worker.session.claiming.tick()

        assert (await app._store.run(run.uid)).fence == fence
        assert await run.state() == "paused"


async def test_a_rollback_goes_on_where_the_wrong_deploy_stopped(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, version("a"))
        for _ in range(2):
            async with app.worker(workflows=[version("wrong")]):
                await app.resume("run")
                await until_state(run, "paused")

        async with app.worker(workflows=[version("a")]):
            assert await run.result(timeout=SECONDS) == ["a!", "now"]


async def test_a_worker_leaves_parked_runs_of_other_queues_alone(app: App) -> None:
    async with app:
        run = await waiting_for_go(app, version("a"))
        await parked(app, run, version("wrong"))

        async with app.worker(workflows=[version("a")], queues=["elsewhere"]) as worker:
            await worker.session.claiming.tick()
        assert await run.state() == "paused"


# --- what no longer decodes -----------------------------------------------------------------------


async def test_a_result_that_no_longer_decodes_parks(app: App) -> None:
    @step(name="measure")
    async def measure() -> str:
        return "long"

    @step(name="measure")
    async def measure_in_numbers() -> int:
        return 7

    async def old() -> list[Any]:
        return [await measure(), await go.wait()]

    async def new() -> list[Any]:
        return [await measure_in_numbers(), await go.wait()]

    async with app:
        run = await waiting_for_go(app, deployed(old))
        before = await all_of(app)

        told = await parked(app, run, deployed(new))

        assert "measure" in told
        assert await all_of(app) == before
        async with app.worker(workflows=[deployed(old)]):
            await app.resume("run")
            assert await run.result(timeout=SECONDS) == ["long", "now"]


async def test_arguments_that_no_longer_decode_park(app: App) -> None:
    async def old(count: str) -> str:
        return f"{count} {await go.wait()}"

    async def new(count: int) -> str:
        return f"{count} {await go.wait()}"

    async with app:
        run = await app.start(deployed(old).options(id="run"), "many")

        told = await parked(app, run, deployed(new))

        assert "count" in told
        assert "async def new(count: int) -> str:" in told
        async with app.worker(workflows=[deployed(old)]):
            await app.resume("run")
            await run.signal(go, "now")
            assert await run.result(timeout=SECONDS) == "many now"


async def test_the_run_of_a_step_whose_arguments_no_longer_decode_parks(app: App) -> None:
    async def old() -> str:
        return await weigh.options(queue="scales")("heavy")

    @step(name="weigh")
    async def weigh(what: str) -> str:
        return what

    async with app:
        async with app.worker(workflows=[deployed(old)]):
            run = await app.start(deployed(old).options(id="run"))
            await until_state(run, "waiting")
        steps.registered["weigh"].clear()

        @step(name="weigh")
        async def weigh_in_grams(what: int) -> str:
            return f"{what} g"

        async with app.worker(workflows=[], queues=["scales"]):
            [child] = [info for info in await app.runs() if info.kind == "step"]
            await until_state(await app.get(child.id), "paused")
        assert (await app._store.run(child.uid)).parked_by != ""


# --- the line in the report -----------------------------------------------------------------------


async def gathers_old() -> list[str]:
    both = await asyncio.gather(fetch("a"), fetch("b"))
    return [*both, await go.wait()]


async def gathers_new() -> list[str]:
    both = await asyncio.gather(fetch("a"), fetch("c"))  # gather
    return [*both, await go.wait()]


async def groups_new() -> list[str]:
    async with asyncio.TaskGroup() as group:  # group
        both = [group.create_task(fetch(each)) for each in ("a", "c")]
    return [*(each.result() for each in both), await go.wait()]


async def tasks_new() -> list[str]:
    both = [asyncio.create_task(fetch(each)) for each in ("a", "c")]
    return [await both[0], await both[1], await go.wait()]  # tasks


@pytest.mark.parametrize(
    ("new", "mark"), [(gathers_new, "gather"), (groups_new, "group"), (tasks_new, "tasks")]
)
async def test_a_call_that_a_task_makes_is_reported_with_the_line_that_awaits_it(
    app: App, new: Any, mark: str
) -> None:
    async with app:
        run = await waiting_for_go(app, deployed(gathers_old))

        told = await parked(app, run, deployed(new))

        assert f"in {__file__}, line " in told
        assert f"# {mark}\n" in told
