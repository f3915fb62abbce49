"""Runs that are cancelled or time out while an effect waits: they clean up and send nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, NotApplied, Retry, Signal, Unknown, effect, effect_key, step, workflow
from onward.errors import RunFailed, VerdictRefused
from tests.kit.deploys import deployed
from tests.kit.ledgers import effect_of, outcomes, states_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import Run
    from onward.sdk.effects import EffectInfo
    from onward.telemetry import Attention

sent: list[str] = []
done: list[str] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def _nothing_is_done() -> None:
    sent.clear()
    done.clear()


@effect(approve=True)
async def letter(name: str) -> str:
    sent.append(name)
    return effect_key()


@effect
async def vague(name: str) -> str:
    sent.append(name)
    raise ConnectionError(name)


async def unknown(name: str, *, key: str) -> Unknown:
    done.append(f"asked about {name}")
    return Unknown()


@effect(reconcile=unknown)
async def sought(name: str) -> str:
    sent.append(name)
    raise ConnectionError(name)


@effect(retry=Retry(attempts=5, delay="1h", max_delay="1h"))
async def refused(name: str) -> str:
    sent.append(name)
    raise NotApplied(name)


@effect(idempotency_window="24h", retry=Retry(attempts=5, delay="1h", max_delay="1h"))
async def known(name: str) -> str:
    sent.append(name)
    raise ConnectionError(name)


@effect(rate="1/h")
async def rare(name: str) -> str:
    sent.append(name)
    return name


@step
async def tidy(what: str) -> str:
    done.append(what)
    return what


EFFECTS = {each.name: each for each in (letter, vague, sought, refused, known, rare)}


@workflow
async def tidies(name: str) -> str:
    """Make a call, and clean up with a durable call if it is stopped."""
    try:
        if name == "rare":
            await rare("first")
        return await EFFECTS[name]("work")
    except asyncio.CancelledError as stop:
        await tidy("; ".join(getattr(stop, "__notes__", ())))
        raise


WITHDRAWN = "it was withdrawn before it was sent"
UNCERTAIN = "it may have happened, and is waiting for a verdict"
STOPPED = {
    # The effect, as it stands when its run must stop, as it stands after that, how often it
    # was sent, and what the cleanup gets.
    "letter": ("planned", "withdrawn", 0, WITHDRAWN),
    "vague": ("indeterminate", "indeterminate", 1, UNCERTAIN),
    "sought": ("needs_reconcile", "needs_reconcile", 1, UNCERTAIN),
    "known": ("needs_reconcile", "needs_reconcile", 1, UNCERTAIN),
    "refused": ("failed", "failed", 1, None),
}


async def told_to_stop(run: Run[Any], how: str) -> str:
    """Tell a run to stop, or wait until its deadline does, and return the state it ends in."""
    if how == "cancel":
        assert await run.cancel()
    state = "cancelled" if how == "cancel" else "timed_out"
    await until_state(run, state)
    return state


@pytest.mark.parametrize("warm", [0, 1000])
@pytest.mark.parametrize("name", STOPPED)
async def test_a_run_that_waits_for_its_effect_cleans_up_at_once_when_it_is_cancelled(
    app: App, name: str, warm: int
) -> None:
    before, after, count, why = STOPPED[name]
    async with working(app, warm=warm):
        run = await app.start(tidies, name)
        info = await effect_of(app, run, before)
        await until_state(run, "paused", "waiting")
        await told_to_stop(run, "cancel")

        assert done[-1] == ("" if why is None else f"effect '{name}': {why}")
        assert await states_of(app, run) == {name: after}
        assert (await app.effects.get(info.id)).attempt == count == len(sent)
        pending = [each.id for each in await app.effects.pending()]
        assert pending == ([info.id] if after in ("indeterminate", "needs_reconcile") else [])
        ended = ("cancelled" if why is not None else "failed") if name != "refused" else "failed"
        assert (await outcomes(run))[-3:] == [
            ("cancel", "succeeded"),
            (name, ended),
            ("tidy", "succeeded"),
        ]


@pytest.mark.parametrize("paused", [False, True], ids=["", "paused by an operator"])
@pytest.mark.parametrize("name", ["letter", "vague"])
async def test_a_deadline_does_the_same(app: App, name: str, paused: bool) -> None:
    before, after, _, why = STOPPED[name]
    async with working(app):
        run = await app.start(tidies.options(deadline="1s"), name)
        await effect_of(app, run, before)
        if paused:
            await app.pause(run.id)
        await told_to_stop(run, "deadline")

        assert done == [f"effect '{name}': {why}"]
        assert await states_of(app, run) == {name: after}


async def test_an_effect_that_waits_for_its_turn_is_not_sent_when_its_run_is_cancelled(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(tidies, "rare")
        await until_state(run, "waiting")
        await told_to_stop(run, "cancel")

        assert sent == ["first"]
        assert done == [f"effect 'rare': {WITHDRAWN}"]
        assert [each.state for each in await app.effects.of(run.id)] == ["applied"]


# --- verdicts that come later ---------------------------------------------------------------------


async def stopped_with(app: App, name: str) -> tuple[Run[str], EffectInfo]:
    run = await app.start(tidies, name)
    info = await effect_of(app, run, STOPPED[name][0])
    await told_to_stop(run, "cancel")
    return run, info


async def test_a_later_verdict_settles_what_the_run_has_left_uncertain(app: App) -> None:
    async with working(app):
        run, info = await stopped_with(app, "vague")

        settled = await app.effects.resolve(info.id, "applied", result="x", reason="seen")

        assert (settled.state, settled.result) == ("applied", "x")
        assert await app.effects.pending() == []
        assert await run.state() == "cancelled"
        assert len(await outcomes(run)) == 3


async def test_no_reconciler_is_asked_about_an_effect_of_a_cancelled_run(app: App) -> None:
    async with working(app):
        _, info = await stopped_with(app, "sought")

        assert [choice.verdict for choice in await app.effects.choices(info.id)] == [
            "applied", "not_applied", "skip",
        ]  # fmt: skip
        with pytest.raises(VerdictRefused, match="the reconciler is no longer called"):
            await app.effects.resolve(info.id, "ask_again", reason="once more")


@effect(timeout="300ms", settle="0s", start_within="300ms")
async def brief(name: str) -> str:
    sent.append(name)
    raise ConnectionError(name)


@workflow
async def brief_work() -> str:
    return await brief("work")


async def test_what_is_judged_not_applied_after_a_cancel_is_not_sent_again(app: App) -> None:
    async with working(app):
        run = await app.start(brief_work)
        info = await effect_of(app, run, "indeterminate")
        await told_to_stop(run, "cancel")

        async def is_judged() -> bool:
            try:
                await app.effects.resolve(info.id, "not_applied", reason="not there")
            except VerdictRefused:
                return False
            return True

        await until(is_judged)
        judged = await app.effects.get(info.id)
        assert (judged.state, judged.asked_at) == ("failed", None)
    assert sent == ["work"]


async def test_on_attention_is_called_for_an_effect_that_is_left_uncertain(url: str) -> None:
    told: list[Attention] = []

    async def bell(attention: Attention) -> None:
        told.append(attention)

    app = App(url, on_attention=bell)
    async with working(app):
        await stopped_with(app, "sought")

    assert [each.why for each in told] == ["reconciliation"]
    assert "the outcome of effect 'sought' is unknown" in (told[0].message or "")


# --- siblings, cleanup, other ends ----------------------------------------------------------------


async def branch(name: str, work: Any) -> Any:
    try:
        return await work
    except asyncio.CancelledError:
        await tidy(name)
        raise


@workflow
async def gathers() -> list[Any]:
    return list(
        await asyncio.gather(
            branch("letter", letter("a")),
            branch("vague", vague("b")),
            branch("signal", go.wait()),
            branch("sleep", onward.sleep("1h")),
        )
    )


@pytest.mark.parametrize("warm", [0, 1000])
async def test_every_branch_cleans_up_beside_effects_that_await_a_verdict(
    app: App, warm: int
) -> None:
    async with working(app, warm=warm):
        run = await app.start(gathers)
        await effect_of(app, run, "planned", name="letter")
        await effect_of(app, run, "indeterminate", name="vague")
        await until_state(run, "waiting")
        await told_to_stop(run, "cancel")

        assert sorted(done) == ["letter", "signal", "sleep", "vague"]
        assert await states_of(app, run) == {"letter": "withdrawn", "vague": "indeterminate"}


@workflow
async def apologises() -> None:
    try:
        await go.wait()
    finally:
        await letter("sorry")
        await tidy("apologised")


async def test_an_effect_of_the_cleanup_may_be_approved(app: App) -> None:
    async with working(app):
        run = await app.start(apologises)
        await until_state(run, "waiting")
        await run.cancel()
        info = await effect_of(app, run, "planned")
        await app.effects.approve(info.id, reason="be polite")
        await until_state(run, "cancelled")

    assert (sent, done) == (["sorry"], ["apologised"])


@pytest.mark.parametrize("warm", [0, 1], ids=["body evicted", "body in memory"])
async def test_a_plan_of_the_cleanup_is_withdrawn_when_its_grace_is_over(
    app: App, warm: int
) -> None:
    async with working(app, warm=warm):
        run = await app.start(apologises)
        await until_state(run, "waiting")
        await run.cancel(grace="1s")
        await effect_of(app, run, "planned")
        await until_state(run, "cancelled")

        assert await states_of(app, run) == {"letter": "withdrawn"}
        assert await app.effects.pending() == []
    assert sent == []


@workflow
async def leaves(how: str) -> str:
    task = asyncio.ensure_future(letter("left"))
    await go.wait()
    assert not task.done()
    if how == "fails":
        raise LookupError("wrong")
    return "done"


@pytest.mark.parametrize("how", ["returns", "fails", "is forced"])
async def test_what_a_run_leaves_planned_is_withdrawn_however_it_ends(app: App, how: str) -> None:
    async with working(app):
        run = await app.start(leaves, how)
        info = await effect_of(app, run, "planned")
        if how == "is forced":
            await run.cancel(force=True)
        else:
            await run.signal(go, "on")
        await until_state(run, "succeeded", "failed", "cancelled")

        assert (await app.effects.get(info.id)).state == "withdrawn"
        assert await app.effects.pending() == []
        with pytest.raises(VerdictRefused, match="the effect was withdrawn"):
            await app.effects.approve(info.id, reason="fine")
    assert sent == []


async def test_a_retry_of_a_cancelled_run_plans_the_same_effect_again(app: App) -> None:
    async with working(app):
        run, info = await stopped_with(app, "letter")
        done.clear()
        again = await app.retry(run.id)
        planned = await effect_of(app, again, "planned")

        assert (planned.id, planned.needs_approval) == (info.id, True)
        await app.effects.approve(info.id, reason="after all")
        assert await again.result(timeout="60s") == info.id
    assert (sent, done) == (["work"], [])


async def test_a_retry_of_a_cancelled_run_waits_for_the_verdict_on_its_effect(app: App) -> None:
    async with working(app):
        run, info = await stopped_with(app, "vague")
        again = await app.retry(run.id)
        await until_state(again, "paused")
        await app.effects.resolve(info.id, "applied", result="it did", reason="seen")

        assert await again.result(timeout="60s") == "it did"
    assert sent == ["work"]


# --- at the same time -----------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["memory", "file", "postgres"], indirect=True)
@pytest.mark.parametrize("first", ["approve", "cancel", "both"])
async def test_of_an_approval_and_a_cancel_one_wins(app: App, first: str) -> None:
    async with working(app):
        for n in range(6):
            sent.clear()
            done.clear()
            run = await app.start(tidies.options(id=f"{n}"), "letter")
            info = await effect_of(app, run, "planned")
            approving = app.effects.approve(info.id, reason="fine")
            calls = [approving, run.cancel()] if first == "approve" else [run.cancel(), approving]
            if first == "both":
                answers: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
            else:
                answers = [await _answer(call) for call in calls]
            await until_state(run, "cancelled", "succeeded")

            state = (await app.effects.get(info.id)).state
            is_refused = any(isinstance(each, VerdictRefused) for each in answers)
            assert (state, sent) in (("applied", ["work"]), ("withdrawn", []))
            assert state == "withdrawn" or not is_refused
            if first == "cancel":
                assert is_refused
                assert state == "withdrawn"
            # However it ends, cleanup runs if and only if it was cancelled.
            assert bool(done) == (await run.state() == "cancelled")


async def _answer(call: Any) -> Any:
    try:
        return await call
    except VerdictRefused as refused:
        return refused


# --- runs that no code fits -----------------------------------------------------------------------


async def before(name: str) -> str:
    try:
        return await letter("work")
    finally:
        await tidy("fitting code cleaned up")


async def after(name: str) -> str:
    return await letter("something else")


async def parked(app: App) -> Run[str]:
    """Return a run that waits for an approval, and that other code has parked."""
    async with app.worker(workflows=[deployed(before)]):
        run = await app.start(deployed(before), "x")
        await effect_of(app, run, "planned")
        await until_state(run, "paused")
    async with app.worker(workflows=[deployed(after)]):
        await app.resume(run.id)

        async def has_diverged() -> bool:
            return (await run.info()).reason == "divergence"

        await until(has_diverged)
    return run


async def test_a_parked_run_that_no_code_fits_is_ended_and_says_that_nothing_cleaned_up(
    app: App,
) -> None:
    async with app:
        run = await parked(app)
        async with app.worker(workflows=[deployed(after)]):
            await told_to_stop(run, "cancel")

        error = (await run.info()).error or ""
        assert "no cleanup ran" in error
        assert "something" not in done
        assert await states_of(app, run) == {"letter": "withdrawn"}


async def test_a_parked_run_whose_code_is_back_cleans_up_when_it_is_cancelled(app: App) -> None:
    async with app:
        run = await parked(app)
        await run.cancel()
        async with app.worker(workflows=[deployed(before)]):
            await until_state(run, "cancelled")

        assert done == ["fitting code cleaned up"]
        assert await states_of(app, run) == {"letter": "withdrawn"}


@workflow
async def awaits_a_child(name: str) -> str:
    return await tidies.options(id="child")(name)


@pytest.mark.parametrize("name", ["letter", "vague"])
async def test_a_child_that_waits_for_its_effect_cleans_up_with_its_parent(
    app: App, name: str
) -> None:
    async with working(app):
        run = await app.start(awaits_a_child, name)

        async def is_there() -> bool:
            return any(each.name == name for each in await app.effects.pending())

        await until(is_there)
        await run.cancel()
        await until_state(run, "cancelled")
        child = await app.get("child")
        await until_state(child, "cancelled")

        assert done == [f"effect '{name}': {STOPPED[name][3]}"]
        with pytest.raises((onward.errors.RunCancelled, RunFailed)):
            await run.result(timeout="60s")
