"""Consumer runs that are cancelled, paused or stopped by force, in every phase."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.errors import Retryable, RunOver
from onward.pipelines import Applied, Skipped
from onward.testing.outside import Trouble
from tests.kit.watching import until, working
from tests.sdk.pipelines.post import counts, post, runs_of, until_counts, until_run

if TYPE_CHECKING:
    from onward import App, RunInfo
    from tests.sdk.pipelines.post import Post

VERDICTS = {
    "applied": ({"result": "by hand"}, Applied("by hand"), "consumed"),
    "skip": ({}, Skipped(), "skipped"),
}


async def _uncertain(app: App, made: Post) -> RunInfo:
    """Return a consumer run whose effect has an unknown outcome."""
    made.book.befall(Trouble.REPLY_LOST)
    made.book.is_away = True
    await app.publish(made.letters, "a", id="1")

    async def is_uncertain() -> bool:
        return [each.state for each in await app.effects.all()] == ["needs_reconcile"]

    await until(is_uncertain)
    [run] = await runs_of(app, made.handler("Book"))
    return run


async def test_a_run_cancelled_before_its_effect_releases_its_events(app: App) -> None:
    made = post(approve=True)
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        run = await until_run(app, made.handler("Book"), "paused")
        await app.cancel(run.id)

        async def is_prepared_again() -> bool:
            return len(made.prepared) == 2

        await until(is_prepared_again)
        again = await until_run(app, made.handler("Book"), "paused")
        first = (await runs_of(app, made.handler("Book")))[0]
        [planned] = await app.effects.pending()
        await app.effects.approve(planned.id, reason="now")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert (first.state, again.uid != run.uid) == ("cancelled", True)
    assert len(made.book.applied) == 1


async def test_a_run_cancelled_between_two_workers_ends_and_the_worker_goes_on(app: App) -> None:
    made = post()
    reached = asyncio.Event()

    async def hold() -> None:
        reached.set()
        await asyncio.Event().wait()

    made.befall("prepare", hold)
    async with app:
        async with app.worker(pipelines=[made.pipeline], drain="10ms"):
            await app.publish(made.letters, "a", id="1")
            await asyncio.wait_for(reached.wait(), 30)
        [run] = await runs_of(app, made.handler("Book"))
        await app.cancel(run.id)
        async with app.worker(pipelines=[made.pipeline]):
            await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        chain = await runs_of(app, made.handler("Book"))
    assert [each.state for each in chain[:2]] == ["cancelled", "succeeded"]


async def test_a_cancel_while_a_transient_failure_is_raised_keeps_it_from_a_retry(
    app: App,
) -> None:
    made = post()

    async def cancel_and_fail() -> None:
        [run] = await runs_of(app, made.handler("Book"))
        assert await app.cancel(run.id) == "accepted"
        raise Retryable("busy", after="1h")

    made.befall("prepare", cancel_and_fail)
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        chain = await runs_of(app, made.handler("Book"))
    assert [each.state for each in chain[:2]] == ["cancelled", "succeeded"]


async def test_a_cancel_after_the_effect_is_followed_by_next(app: App) -> None:
    made = post()
    reached = asyncio.Event()

    async def hold() -> None:
        reached.set()
        await asyncio.Event().wait()

    made.befall("next", hold)
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        await asyncio.wait_for(reached.wait(), 30)
        [run] = await runs_of(app, made.handler("Book"))
        assert await app.cancel(run.id) == "accepted"
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        chain = await runs_of(app, made.handler("Book"))
    assert [each.state for each in chain[:2]] == ["cancelled", "succeeded"]
    assert made.outcomes[0] == Applied("receipt 1")
    assert (len(made.book.sent), made.prepared) == (1, [["a"]])


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_run_stopped_by_force_in_doubt_keeps_its_events_until_a_verdict(
    app: App, verdict: str
) -> None:
    given, outcome, state = VERDICTS[verdict]
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        run = await _uncertain(app, made)
        await app.cancel(run.id, force=True)
        held = await counts(app, made.letters, made.handler("Book"))
        assert held["reserved"] == 1
        assert (await app.pipelines.get(made.name)).state == "blocked"
        with pytest.raises(RunOver):
            await app.retry(run.id)
        [effect] = await app.effects.pending()
        await app.effects.resolve(effect.id, verdict, reason="I looked", **given)  # type: ignore[arg-type]
        await until_counts(app, made.letters, made.handler("Book"), **{state: 1})
        assert (await app.pipelines.get(made.name)).state == "active"
    assert made.outcomes[0] == outcome
    assert len(made.book.sent) == 1


async def _stopped_by_force(app: App, made: Post) -> str:
    """Stop a run with an unknown outcome, and return its effect once "not applied" is accepted."""

    async def is_uncertain() -> bool:
        return [each.state for each in await app.effects.all()] == ["needs_reconcile"]

    await until(is_uncertain)
    [run] = await runs_of(app, made.handler("Book"))
    await app.cancel(run.id, force=True)
    [effect] = await app.effects.pending()

    async def is_accepted() -> bool:
        choices = await app.effects.choices(effect.id)
        return any(each.verdict == "not_applied" and each.since is None for each in choices)

    await until(is_accepted)
    return effect.id


async def test_an_effect_that_did_not_happen_after_a_forced_stop_releases_the_events(
    app: App,
) -> None:
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        made.book.befall(Trouble.LOST)
        made.book.is_away = True
        await app.publish(made.letters, "a", id="1")
        effect = await _stopped_by_force(app, made)
        await app.effects.resolve(effect, "not_applied", reason="I looked")
        made.book.is_away = False
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert len(made.book.applied) == 1
    assert len({request.key for request in made.book.sent}) == 1


async def test_a_paused_run_holds_its_lane(app: App) -> None:
    made = post(approve=True)
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        await app.publish(made.letters, "b", id="2")
        run = await until_run(app, made.handler("Book"), "paused")
        await app.pause(run.id)
        assert len(await runs_of(app, made.handler("Book"))) == 1
        await app.resume(run.id)
        [planned] = await app.effects.pending()
        await app.effects.approve(planned.id, reason="now")
        held = await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert (held["consumed"], len(made.book.applied)) == (1, 1)


async def test_a_paused_pipeline_starts_nothing(app: App) -> None:
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        await app.pipelines.pause(made.name)
        await app.publish(made.letters, "a", id="1")
        assert (await app.pipelines.get(made.name)).state == "paused"
        assert await runs_of(app, made.handler("Book")) == []
        await app.pipelines.resume(made.name)
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)


async def test_a_consumer_run_cannot_be_forked(app: App) -> None:
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        run = await until_run(app, made.handler("Book"), "succeeded")
        with pytest.raises(RunOver, match="Replay its events"):
            await app.fork(run.id)
        with pytest.raises(RunOver, match=f"run {run.id}"):
            await app.fork(run.id, new_id="other")
        with pytest.raises(RunOver):
            await app.retry(run.id)


async def test_an_event_whose_input_was_skipped_is_not_handled_again_after_a_verdict(
    app: App,
) -> None:
    made = post()
    made.box.append("a")
    async with working(app, pipelines=[made.pipeline]):
        made.book.befall(Trouble.LOST)
        made.book.is_away = True
        await app.pipelines.trigger(made.name)
        effect = await _stopped_by_force(app, made)
        [entered] = await app.inputs.list()
        await app.inputs.skip(entered.id, reason="not this one")
        await app.effects.resolve(effect, "not_applied", reason="I looked")
        held = await until_counts(app, made.letters, made.handler("Book"), skipped=1)
        report = await app.inputs.get(entered.id)
    assert (held["pending"], report.input.state) == (0, "skipped")
    assert made.prepared == [["a"]]
