"""Verdicts on effects that a real crash has left uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onward import App
from onward.errors import VerdictRefused
from onward.store import open_store
from tests.e2e.effects.kills import pending
from tests.e2e.effects.orders import one_order
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import killed
from tests.e2e.engine.witness import Witness
from tests.kit.watching import until, until_state

if TYPE_CHECKING:
    from onward import Run
    from onward.sdk.effects import EffectInfo
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew

BECAUSE = "we looked"


async def left_by_a_crash(
    crew: Crew, sink: Sink, app: App, kind: str, point: str
) -> tuple[Run[str], EffectInfo]:
    """Let a worker die while it sends, and return what it left."""
    victim = crew.launch(*SHORT_LEASE)
    sink.arm(victim.pid, point)
    run = await app.start(one_order, kind, "order")
    await killed(victim, point)
    [effect] = await pending(app)
    assert (effect.state, effect.attempt) == ("in_flight", 1)
    with pytest.raises(VerdictRefused, match="may be in progress until"):
        await app.effects.resolve(effect.id, "not_applied", reason=BECAUSE)
    return run, effect


async def ended(crew: Crew, app: App, run: Run[Any]) -> str:
    """Return what came of a run, when everything is as it must be."""
    result: str = await run.result(timeout=PATIENCE_SECONDS)
    async with open_store(crew.url) as store:
        await Witness(store).look()
    assert await pending(app) == []
    return result


async def say_when_it_counts(
    app: App, effect: EffectInfo, verdict: Any, result: Any = None
) -> None:
    """Say it again and again until it is accepted, which must not be too early."""

    async def accepted() -> bool:
        try:
            await app.effects.resolve(effect.id, verdict, result=result, reason=BECAUSE)
        except VerdictRefused:
            return False
        return True

    await until(accepted, PATIENCE_SECONDS)
    decided_at = (await app.effects.get(effect.id)).decided_at
    assert decided_at is not None
    assert effect.judged_from is not None
    assert decided_at >= effect.judged_from


async def test_applied_ends_the_run_without_another_send(crew: Crew, sink: Sink) -> None:
    async with App(crew.url) as app:
        run, effect = await left_by_a_crash(crew, sink, app, "blind", "applied")
        await crew.worker(*SHORT_LEASE)
        await until_state(run, "paused")

        await app.effects.resolve(effect.id, "applied", result="order done", reason=BECAUSE)

        assert await ended(crew, app, run) == "order done"
        assert sink.count("sent")[effect.id] == 1
        judged = await app.effects.get(effect.id)
        assert (judged.verdict, judged.decided_why) == ("applied", BECAUSE)


async def test_not_applied_counts_after_the_window_and_sends_again(crew: Crew, sink: Sink) -> None:
    async with App(crew.url) as app:
        run, effect = await left_by_a_crash(crew, sink, app, "blind", "dropped")
        await crew.worker(*SHORT_LEASE)
        await until_state(run, "paused")

        await say_when_it_counts(app, effect, "not_applied")

        assert await ended(crew, app, run) == "order done"
        assert (sink.count("sent")[effect.id], sink.count("applied")[effect.id]) == (2, 1)


async def test_skip_lets_the_run_go_on_without_it(crew: Crew, sink: Sink) -> None:
    async with App(crew.url) as app:
        run, effect = await left_by_a_crash(crew, sink, app, "blind", "dropped")
        await crew.worker(*SHORT_LEASE)
        await until_state(run, "paused")

        await app.effects.resolve(effect.id, "skip", reason=BECAUSE)

        assert await ended(crew, app, run) == "order skipped"
        assert sink.count("sent")[effect.id] == 1


async def test_ask_again_asks_at_once_what_would_be_asked_later(crew: Crew, sink: Sink) -> None:
    async with App(crew.url) as app:
        sink.be_away(is_away=True)
        run, effect = await left_by_a_crash(crew, sink, app, "traced", "applied")
        await crew.worker(*SHORT_LEASE)
        await until_state(run, "waiting")  # for ten seconds
        sink.be_away(is_away=False)

        await app.effects.resolve(effect.id, "ask_again", reason=BECAUSE)

        assert await ended(crew, app, run) == "order done"
        assert (await app.effects.get(effect.id)).asks == 1
        assert sink.count("sent")[effect.id] == 1


async def test_a_verdict_while_no_worker_lives_counts_when_the_call_cannot_be_under_way(
    crew: Crew, sink: Sink
) -> None:
    async with App(crew.url) as app:
        run, effect = await left_by_a_crash(crew, sink, app, "blind", "announced")

        await say_when_it_counts(app, effect, "applied", "judged")

        await crew.worker(*SHORT_LEASE)
        assert await ended(crew, app, run) == "judged"
        assert sink.entries("sent") == []
