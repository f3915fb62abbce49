"""Handlers that fail: by class they are tried again, pause, or block until other code comes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Retry, Retryable
from onward.errors import NeedsApproval, Precondition
from onward.pipelines import Applied, Skipped
from onward.testing.outside import Trouble
from tests.kit.virtual_time import in_virtual_time
from tests.kit.watching import PATIENCE_SECONDS, until, working
from tests.sdk.pipelines.post import counts, post, runs_of, until_counts, until_run

if TYPE_CHECKING:
    from onward.sdk.effects import EffectInfo
    from onward.telemetry import Attention
    from onward.testing.clock import VirtualClock
    from tests.sdk.pipelines.post import Post

PHASES = ("prepare", "mutate", "next")


async def _publish(app: App, made: Post, text: str = "a") -> None:
    await app.publish(made.letters, text, id=text)


async def _until_uncertain(app: App) -> EffectInfo:
    """Wait until the only effect has an unknown outcome, and return it."""
    found: list[EffectInfo] = []

    async def is_uncertain() -> bool:
        found[:] = await app.effects.all()
        return [each.state for each in found] == ["needs_reconcile"]

    await until(is_uncertain)
    return found[0]


@pytest.mark.parametrize("phase", PHASES)
def test_a_transient_failure_is_followed_by_another_run_after_a_delay(phase: str) -> None:
    made = post()
    made.befall(phase, Retryable("busy"), Retryable("busy", after="1m"))

    async def scene(app: App, clock: VirtualClock) -> list[Any]:
        async with app.worker(pipelines=[made.pipeline]):
            await _publish(app, made)
            await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        return await runs_of(app, made.handler("Book"))

    first, second, third = in_virtual_time(scene)[:3]
    assert [(run.state, run.reason) for run in (first, second)] == [("failed", "transient")] * 2
    assert third.state == "succeeded"
    assert second.started_at - first.finished_at >= timedelta(seconds=10)
    assert third.started_at - second.finished_at >= timedelta(minutes=1)
    assert len(made.book.applied) == 1


def test_next_after_a_transient_failure_gets_the_outcome_of_the_effect() -> None:
    made = post()
    made.befall("next", Retryable("busy"))

    async def scene(app: App, clock: VirtualClock) -> dict[str, int]:
        async with app.worker(pipelines=[made.pipeline]):
            await _publish(app, made)
            return await until_counts(app, made.letters, made.handler("Book"), consumed=1)

    assert in_virtual_time(scene)["pending"] == 0
    assert made.outcomes[0] == Applied("receipt 1")
    assert len(made.book.sent) == 1
    assert made.prepared == [["a"]]


@pytest.mark.parametrize("phase", PHASES)
def test_a_handler_that_stays_busy_is_blocked_and_keeps_what_it_owes(phase: str) -> None:
    made = post()
    made.befall(phase, *[Retryable("busy")] * 5)

    async def scene(app: App, clock: VirtualClock) -> dict[str, int]:
        async with app.worker(pipelines=[made.pipeline]):
            await _publish(app, made)

            async def is_blocked() -> bool:
                return (await app.pipelines.get(made.name)).state == "blocked"

            await until(is_blocked, 86_400, 1)
            held = await counts(app, made.letters, made.handler("Book"))
            await app.pipelines.resume(made.name)
            await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        return held

    held = in_virtual_time(scene)
    assert held["reserved" if phase == "next" else "pending"] == 1
    assert len(made.book.applied) == 1


@pytest.mark.parametrize("phase", PHASES)
async def test_a_logic_failure_blocks_the_pipeline_and_does_not_loop(app: App, phase: str) -> None:
    made = post()
    made.befall(phase, ValueError("a bug"))
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        failed = await until_run(app, made.handler("Book"), "failed")
        info = await app.pipelines.get(made.name)
        assert (failed.reason, info.state) == ("logic", "blocked")
        assert failed.error is not None
        assert "ValueError: a bug" in str(failed.error)
        [blocked] = [each for each in info.handlers if each.state == "blocked"]
        assert (blocked.name, blocked.run) == (made.handler("Book"), failed.id)
        assert blocked.next
        await _publish(app, made, "b")
        assert len(await runs_of(app, made.handler("Book"))) == 1
        await app.pipelines.resume(made.name)
        await until_counts(app, made.letters, made.handler("Book"), consumed=2)
        chain = await runs_of(app, made.handler("Book"))
    assert chain[1].state == "succeeded"
    assert len(made.book.applied) == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [(NeedsApproval("log in"), "approval"), (Precondition("no sheet"), "precondition")],
)
@pytest.mark.parametrize("phase", PHASES)
async def test_a_handler_that_needs_a_person_pauses_until_it_is_resumed(
    app: App, phase: str, error: Exception, reason: str
) -> None:
    made = post()
    made.befall(phase, error)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        paused = await until_run(app, made.handler("Book"), "paused")
        assert paused.reason == reason
        assert str(error) in str(paused.error)
        [blocker] = await app.why(paused.id)
        assert (blocker.kind, str(error) in blocker.error) == ("paused", True)
        assert blocker.next == f"onward runs resume {paused.id}"
        await app.resume(paused.id)
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        [run, *_] = await runs_of(app, made.handler("Book"))
    assert (run.uid, run.state) == (paused.uid, "succeeded")
    assert len(made.book.applied) == 1


@pytest.mark.parametrize(
    ("error", "why"),
    [(ValueError("a bug"), "logic"), (Retryable("busy"), "transient")],
    ids=["logic", "transient"],
)
async def test_on_attention_is_called_once_for_a_blocked_handler(
    url: str, error: Exception, why: str
) -> None:
    made = post(retry=Retry(attempts=2, delay="0s"))
    made.befall("prepare", *[error] * (2 if why == "transient" else 1))
    alerts: asyncio.Queue[Attention] = asyncio.Queue()
    app = App(url, on_attention=alerts.put)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        alert = await asyncio.wait_for(alerts.get(), PATIENCE_SECONDS)
        failed = await until_run(app, made.handler("Book"), "failed")
    assert (alert.run_id, alert.uid, alert.why) == (failed.id, failed.uid, why)
    assert alert.workflow == f"consumer {made.handler('Book')}"
    assert str(error) in alert.message
    assert alerts.empty()


async def test_on_attention_is_called_for_a_handler_that_needs_approval(url: str) -> None:
    made = post()
    made.befall("prepare", NeedsApproval("the inbox requires a new login"))
    alerts: asyncio.Queue[Attention] = asyncio.Queue()
    app = App(url, on_attention=alerts.put)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        alert = await asyncio.wait_for(alerts.get(), PATIENCE_SECONDS)
        await until_run(app, made.handler("Book"), "paused")
    assert alert.why == "approval"
    assert "the inbox requires a new login" in alert.message
    assert alerts.empty()


async def test_a_definite_refusal_releases_the_events_and_blocks(app: App) -> None:
    made = post()
    made.book.befall(Trouble.REFUSED, times=3)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        failed = await until_run(app, made.handler("Book"), "failed")
        assert failed.reason == "logic"
        assert failed.error_type == "onward.errors.NotApplied"
        held = await counts(app, made.letters, made.handler("Book"))
        assert (held["pending"], held["reserved"]) == (1, 0)
        await app.pipelines.resume(made.name)
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    keys = {request.key for request in made.book.sent}
    assert len(keys) == 1  # the same events are sent under the same key
    assert len(made.book.applied) == 1


async def test_an_approval_does_not_count_for_other_arguments_of_a_later_run(app: App) -> None:
    made = post(approve=True)
    made.book.befall(Trouble.REFUSED, times=3)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        await until_run(app, made.handler("Book"), "paused")
        [planned] = await app.effects.pending()
        await app.effects.approve(planned.id, reason="reads well")
        await until_run(app, made.handler("Book"), "failed")
        made.addition = " and more"
        await app.pipelines.resume(made.name)
        await until_run(app, made.handler("Book"), "paused")

        [asked] = await app.effects.pending()
        assert (asked.id, asked.needs_approval) == (planned.id, True)
        assert (asked.arguments, asked.title) == ({"line": "a and more"}, "Write a and more")
        assert {request.arguments for request in made.book.sent} == {("a",)}
        await app.effects.approve(asked.id, reason="reads well too")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert made.book.sent[-1].arguments == ("a and more",)


async def test_an_approval_counts_for_the_same_arguments_of_a_later_run(app: App) -> None:
    made = post(approve=True)
    made.book.befall(Trouble.REFUSED, times=3)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        await until_run(app, made.handler("Book"), "paused")
        [planned] = await app.effects.pending()
        await app.effects.approve(planned.id, reason="reads well")
        await until_run(app, made.handler("Book"), "failed")
        await app.pipelines.resume(made.name)
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)


async def test_a_skipped_effect_skips_its_events_and_next_runs(app: App) -> None:
    made = post(approve=True)
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        await until_run(app, made.handler("Book"), "paused")
        [planned] = await app.effects.pending()
        await app.effects.resolve(planned.id, "skip", reason="not this one")
        await until_counts(app, made.letters, made.handler("Book"), skipped=1)
        await until_counts(app, made.rows, made.handler("Count"), consumed=1)
    assert made.outcomes[0] == Skipped()
    assert made.book.sent == []


async def test_an_unknown_outcome_holds_the_pipeline_until_a_verdict(app: App) -> None:
    made = post()
    made.book.befall(Trouble.REPLY_LOST)
    made.book.is_away = True
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        await _publish(app, made, "b")

        pending = await _until_uncertain(app)
        held = await counts(app, made.letters, made.handler("Book"))
        assert (held["reserved"], held["pending"]) == (1, 1)
        await app.effects.resolve(pending.id, "applied", result="by hand", reason="I looked")
        await until_counts(app, made.letters, made.handler("Book"), consumed=2)
    assert made.outcomes[0] == Applied("by hand")
    assert len(made.book.applied) == 2


@pytest.mark.parametrize("trouble", [Trouble.REPLY_LOST, Trouble.LOST])
async def test_ask_again_calls_the_reconciler_whose_answer_settles_the_events(
    app: App, trouble: Trouble
) -> None:
    made = post()
    made.book.befall(trouble)
    made.book.is_away = True
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        effect = await _until_uncertain(app)
        made.book.is_away = False
        await app.effects.resolve(effect.id, "ask_again", reason="the book is back")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        asked = await app.effects.get(effect.id)
        assert (await app.pipelines.get(made.name)).state == "active"
    assert (asked.state, asked.verdict) == ("applied", "ask_again")
    assert made.outcomes[0] == Applied("receipt 1")
    assert made.prepared == [["a"]]
    assert len(made.book.applied) == 1
    assert len(made.book.sent) == (1 if trouble is Trouble.REPLY_LOST else 2)


async def test_ask_again_leaves_the_events_reserved_while_the_outcome_is_unknown(app: App) -> None:
    made = post()
    made.book.befall(Trouble.REPLY_LOST)
    made.book.is_away = True
    async with working(app, pipelines=[made.pipeline]):
        await _publish(app, made)
        effect = await _until_uncertain(app)
        await app.effects.resolve(effect.id, "ask_again", reason="perhaps now")

        async def is_asked() -> bool:
            return (await app.effects.get(effect.id)).asks > effect.asks

        await until(is_asked)
        held = await counts(app, made.letters, made.handler("Book"))
        assert (held["reserved"], held["pending"]) == (1, 0)
        await app.effects.resolve(effect.id, "applied", result="by hand", reason="I looked")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert len(made.book.sent) == 1


async def test_a_run_evicted_while_its_effect_is_uncertain_continues_with_next(app: App) -> None:
    made = post()
    mutated: list[str] = []

    async def note() -> None:
        mutated.append("chosen")

    made.befall("mutate", note, note)
    made.book.befall(Trouble.REPLY_LOST)
    made.book.is_away = True
    async with working(app, pipelines=[made.pipeline], warm=0) as session:
        await _publish(app, made)
        effect = await _until_uncertain(app)
        await until_run(app, made.handler("Book"), "waiting", "paused")
        await until(lambda: not session.running)
        await app.effects.resolve(effect.id, "applied", result="by hand", reason="I looked")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert mutated == ["chosen", "chosen"]  # the second time in the replay
    assert made.outcomes[0] == Applied("by hand")
    assert made.prepared == [["a"]]
    assert len(made.book.sent) == 1
