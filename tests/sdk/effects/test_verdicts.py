"""Verdicts: what operators say of effects, when it counts, and what the run gets."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from onward import (
    App,
    Applied,
    Retry,
    Run,
    Signal,
    Unknown,
    Workflow,
    effect,
    effect_key,
    workflow,
)
from onward.errors import (
    BadInput,
    EffectSkipped,
    NotApplied,
    NotFound,
    Unencodable,
    VerdictRefused,
)
from onward.sdk import effect as effect_module
from tests.kit.ledgers import effect_of, outcomes
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward.sdk.effects import EffectInfo

sent: list[tuple[int, str]] = []
asked: list[str] = []
does: list[Any] = []
says: list[Any] = []
holds: list[asyncio.Event] = []
go = Signal("go", str)

SAID: dict[Any, dict[str, Any]] = {
    "applied": {"result": 4},
    "not_applied": {},
    "skip": {},
    "ask_again": {},
}
"""Every verdict, and what is given with it."""


@pytest.fixture(autouse=True)
def _nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (sent, asked, does, says, holds):
        each.clear()
    soon = Retry(attempts=1, delay="1ms", max_delay="1ms")
    monkeypatch.setattr("onward.core.effect.machine.RECONCILING", soon)


def act(n: int) -> int:
    sent.append((n, effect_key()))
    answer = does.pop(0) if does else ConnectionError("lost")
    if isinstance(answer, BaseException):
        raise answer
    return int(answer)


async def look_up(n: int, *, key: str) -> Any:
    asked.append(key)
    if holds:
        await holds[0].wait()
    return says.pop(0) if says else Unknown()


@effect
async def charge(n: int) -> int:
    return act(n)


# That it did not happen can be said of these soon; a worker that is too slow does not send them.
@effect(timeout="20ms", settle="0s", start_within="250ms")
async def brief_charge(n: int) -> int:
    return act(n)


# Others than this code need not know its policy: the ledger does. Of it only the number counts.
@effect(
    retry=Retry(attempts=5, delay="1h", max_delay="1h", only=ValueError),
    timeout="20ms",
    settle="0s",
    start_within="250ms",
)
async def charge_often(n: int) -> int:
    return act(n)


@effect(reconcile=look_up)
async def sought(n: int) -> int:
    return act(n)


@effect(reconcile=look_up, timeout="20ms", settle="0s", start_within="250ms")
async def sought_briefly(n: int) -> int:
    return act(n)


@effect(timeout="40ms", settle="0s", start_within="1s")
async def stuck(n: int) -> int:
    act(n)
    while True:  # it cannot be stopped, as a call in a library may be
        try:
            await holds[0].wait()
        except asyncio.CancelledError:
            continue
        return n


@workflow
async def pays(n: int) -> str:
    try:
        return f"paid {await charge(n)}"
    except (EffectSkipped, NotApplied) as error:
        return type(error).__name__


@workflow
async def pays_briefly(n: int) -> str:
    try:
        return f"paid {await brief_charge(n)}"
    except NotApplied as error:
        return type(error).__name__


@workflow
async def pays_often(n: int) -> str:
    try:
        return f"paid {await charge_often(n)}"
    except (EffectSkipped, NotApplied) as error:
        return type(error).__name__


@workflow
async def pays_and_looks(n: int) -> str:
    return f"paid {await sought(n)}"


@workflow
async def looks_briefly(n: int) -> str:
    try:
        return f"paid {await sought_briefly(n)}"
    except (EffectSkipped, NotApplied) as error:
        return type(error).__name__


@workflow
async def is_stuck(n: int) -> str:
    return f"paid {await stuck(n)}"


async def refused(app: App, effect_id: str, verdict: Any, **said: Any) -> str:
    with pytest.raises(VerdictRefused) as told:
        await app.effects.resolve(effect_id, verdict, reason="looked", **said)
    return told.value.fact


# --- each verdict ---------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [0, 1000])
async def test_it_happened_and_this_is_its_result(app: App, warm: int) -> None:
    async with working(app, warm=warm):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        before = datetime.now(UTC)
        told = await app.effects.resolve(
            info.id, "applied", result=70, reason="saw it at the bank", by="ann"
        )

        assert (told.state, told.result, told.why) == ("applied", 70, None)
        assert (told.verdict, told.decided_by) == ("applied", "ann")
        assert told.decided_why == "saw it at the bank"
        assert told.decided_at is not None
        assert abs((told.decided_at - before).total_seconds()) < 60
        assert await run.result(timeout="60s") == "paid 70"
    assert len(sent) == 1


async def test_it_did_not_happen_and_is_sent_again_under_its_key(app: App) -> None:
    does[:] = [ConnectionError("lost"), 9]
    async with working(app):
        run = await app.start(pays_often, 7)
        await until(lambda: is_over_by_saying_no(app, run))
        assert await run.result(timeout="60s") == "paid 9"
    assert len(sent) == 2
    assert len({key for _, key in sent}) == 1


async def is_over_by_saying_no(app: App, run: Run[str]) -> bool:
    """Say that it did not happen, where that can be said; return whether the run is over."""
    for info in await app.effects.of(run.id):
        if info.state == "indeterminate":
            with contextlib.suppress(VerdictRefused):  # it is too early to say
                await app.effects.resolve(info.id, "not_applied", reason="looked")
    return await run.state() == "succeeded"


@pytest.mark.parametrize(("flow", "times"), [(pays_briefly, 3), (pays_often, 5)])
async def test_it_may_be_said_as_often_as_its_policy_says_that_it_did_not_happen(
    app: App, flow: Workflow[[int], str], times: int
) -> None:
    async with working(app):
        run = await app.start(flow, 7)
        info = await effect_of(app, run, "indeterminate")
        assert info.tries == times
        await until(lambda: is_over_by_saying_no(app, run))
        assert await run.result(timeout="60s") == "NotApplied"
        [info] = await app.effects.of(run.id)
        assert info.attempt == times
    assert 0 < len(sent) <= times  # a worker that is too slow makes an attempt, but does not send


async def test_the_run_goes_on_without_it(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        told = await app.effects.resolve(info.id, "skip", reason="too small to matter")

        assert told.state == "skipped"
        assert await run.result(timeout="60s") == "EffectSkipped"
        assert await outcomes(run) == [("charge", "failed")]
    assert len(sent) == 1


async def test_the_reconciler_is_asked_again(app: App) -> None:
    says[:] = [Unknown(), Applied(5)]
    async with working(app):
        run = await app.start(pays_and_looks, 7)
        info = await effect_of(app, run, "indeterminate")
        await app.effects.resolve(info.id, "ask_again", reason="the bank is back")
        assert await run.result(timeout="60s") == "paid 5"
    assert (len(sent), len(asked)) == (1, 2)


async def test_ask_again_is_refused_without_a_reconciler(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        assert "no reconciler" in await refused(app, info.id, "ask_again")
        assert (await app.effects.get(info.id)).version == info.version


# --- what does not count --------------------------------------------------------------------------


async def test_too_early_a_no_is_refused_with_the_time_from_which_it_counts(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        assert info.judged_from is not None
        fact = await refused(app, info.id, "not_applied")
        assert info.judged_from.isoformat()[:19] in fact
        await app.effects.resolve(info.id, "applied", result=1, reason="a yes is never early")
        assert await run.result(timeout="60s") == "paid 1"


async def test_nothing_is_said_of_a_call_under_way(app: App) -> None:
    holds[:] = [asyncio.Event()]
    does[:] = [1]
    async with working(app):
        run = await app.start(gated, 7)
        info = await effect_of(app, run, "in_flight")
        for verdict in ("applied", "not_applied", "skip", "ask_again"):
            assert "may be in progress until" in await refused(app, info.id, verdict, result=1)
        holds[0].set()
        assert await run.result(timeout="60s") == 7


@effect
async def held(n: int) -> int:
    act(n)
    await holds[0].wait()
    return n


@workflow
async def gated(n: int) -> int:
    return await held(n)


async def test_a_verdict_needs_a_reason_and_an_effect(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        with pytest.raises(BadInput, match="Pass a reason"):
            await app.effects.resolve(info.id, "skip", reason="  ")
        with pytest.raises(BadInput, match="is not one of"):
            await app.effects.resolve(info.id, "maybe", reason="x")  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await app.effects.resolve("no such effect", "skip", reason="x")
        assert (await app.effects.get(info.id)).state == "indeterminate"


async def test_a_verdict_on_what_has_changed_since_does_not_count(app: App) -> None:
    async with working(app):
        run = await app.start(pays_and_looks, 7)
        info = await effect_of(app, run, "indeterminate")
        await app.effects.resolve(info.id, "ask_again", reason="again", version=info.version)

        async def is_back() -> bool:
            again = await app.effects.get(info.id)
            return again.state == "indeterminate" and again.version > info.version

        await until(is_back)
        assert "the effect has changed" in await refused(app, info.id, "skip", version=info.version)


async def test_a_settled_effect_is_not_judged_again(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        await app.effects.resolve(info.id, "skip", reason="never mind")
        assert "its state is 'skipped'" in await refused(app, info.id, "applied", result=1)
        assert await run.result(timeout="60s") == "EffectSkipped"


async def test_of_two_operators_at_once_one_wins_and_the_other_gets_an_error(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        verdicts = (
            app.effects.resolve(info.id, "applied", result=n, reason="saw it", by=f"op {n}")
            for n in range(5)
        )
        answers = await asyncio.gather(*verdicts, return_exceptions=True)
        won = [n for n, answer in enumerate(answers) if not isinstance(answer, BaseException)]
        lost = [answer for answer in answers if isinstance(answer, VerdictRefused)]

        assert (len(won), len(lost)) == (1, 4)
        assert await run.result(timeout="60s") == f"paid {won[0]}"
        assert (await app.effects.get(info.id)).decided_by == f"op {won[0]}"


async def until_every_verdict_counts(app: App, run: Run[str]) -> EffectInfo:
    """Wait until nothing has to be waited for before saying what became of the effect of a run."""
    info = await effect_of(app, run, "indeterminate")
    await until_state(run, "paused")

    async def counts() -> bool:
        return info.judged_from is None or datetime.now(UTC) > info.judged_from

    await until(counts)
    return info


async def test_of_two_verdicts_at_once_one_counts_and_the_other_is_refused(
    app: App,
) -> None:
    pairs = list(product(SAID, SAID))
    async with app:
        async with working(app):
            runs = [await app.start(looks_briefly, n) for n in range(len(pairs))]
            infos = [await until_every_verdict_counts(app, run) for run in runs]

        for info, (one, other) in zip(infos, pairs, strict=True):
            answers = await asyncio.gather(
                app.effects.resolve(info.id, one, reason="saw", by="ann", **SAID[one]),
                app.effects.resolve(info.id, other, reason="saw", by="bob", **SAID[other]),
                return_exceptions=True,
            )
            [lost] = [answer for answer in answers if isinstance(answer, BaseException)]
            [won] = [answer for answer in answers if not isinstance(answer, BaseException)]
            assert isinstance(lost, VerdictRefused)
            assert f"(verdict {won.verdict!r} by {won.decided_by})" in lost.fact
            assert (await app.effects.get(info.id)).decided_by == won.decided_by


async def test_an_operator_who_saw_a_verdict_may_overrule_it(app: App) -> None:
    async with app:
        async with working(app):
            run = await app.start(looks_briefly, 7)
            info = await until_every_verdict_counts(app, run)

        decided = await app.effects.resolve(info.id, "not_applied", reason="not there", by="ann")
        assert "verdict 'not_applied' by ann" in await refused(app, info.id, "skip")
        await app.effects.resolve(info.id, "skip", reason="told to", version=decided.version)

        async with working(app):
            assert await run.result(timeout="60s") == "EffectSkipped"
    assert len(sent) == 1


# --- the result -----------------------------------------------------------------------------------


async def test_a_result_of_another_type_is_refused_at_the_call(app: App) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        with pytest.raises(Unencodable):
            await app.effects.resolve(info.id, "applied", result="seven", reason="saw it")
        assert (await app.effects.get(info.id)).version == info.version


@pytest.mark.parametrize("result", ["seven", None, [7]])
async def test_a_result_of_another_kind_is_refused_without_the_code(
    app: App, result: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        monkeypatch.setattr(effect_module, "registered", {})
        with pytest.raises(VerdictRefused, match=r"is a JSON .*, but effect .* returns int"):
            await app.effects.resolve(info.id, "applied", result=result, reason="saw it")
        assert await run.state() == "paused"
        await app.effects.resolve(info.id, "applied", result=7, reason="saw it")
        assert await run.result(timeout="60s") == "paid 7"


async def test_a_result_that_an_operator_without_the_code_got_wrong_parks_the_run(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(app):
        run = await app.start(pays, 7)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        monkeypatch.setattr(effect_module, "registered", {})
        await app.effects.resolve(info.id, "applied", result=7.5, reason="saw it")

        async def is_parked() -> bool:
            return (await run.info()).reason == "divergence"

        await until(is_parked)
    assert len(sent) == 1


# --- races ----------------------------------------------------------------------------------------


async def test_a_verdict_while_the_reconciler_is_asked_wins(app: App) -> None:
    holds[:] = [asyncio.Event()]
    says[:] = [Applied(1)]
    async with working(app):
        run = await app.start(pays_and_looks, 7)

        async def is_asked() -> bool:
            return bool(asked)

        await until(is_asked)
        [info] = await app.effects.of(run.id)
        assert info.state == "needs_reconcile"
        await app.effects.resolve(info.id, "applied", result=2, reason="saw it")
        holds[0].set()

        assert await run.result(timeout="60s") == "paid 2"
        assert (await app.effects.get(info.id)).result == 2
    assert (len(sent), len(asked)) == (1, 1)


async def test_a_verdict_before_the_run_has_noticed_that_it_is_uncertain_wins(app: App) -> None:
    holds[:] = [asyncio.Event()]
    does[:] = [1]
    async with working(app):
        run = await app.start(is_stuck, 7)
        info = await effect_of(app, run, "in_flight")

        async def is_judged() -> bool:
            try:
                await app.effects.resolve(info.id, "applied", result=3, reason="saw it")
            except VerdictRefused:
                return False
            return True

        await until(is_judged)
        assert await run.state() == "running"
        holds[0].set()
        assert await run.result(timeout="60s") == "paid 3"
    assert len(sent) == 1


async def test_a_verdict_while_no_worker_is_there_is_heard_by_the_next(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(pays, 7)
            info = await effect_of(app, run, "indeterminate")
            await until_state(run, "paused")
        await app.effects.resolve(info.id, "applied", result=4, reason="saw it")
        async with working(app):
            assert await run.result(timeout="60s") == "paid 4"
    assert len(sent) == 1


async def test_what_is_not_settled_is_listed_page_by_page(app: App) -> None:
    async with working(app):
        runs = [await app.start(pays, n) for n in range(5)]
        for run in runs:
            await effect_of(app, run, "indeterminate")
        pages, after = [], ""
        while page := await app.effects.pending(limit=2, after=after):
            pages.append([each.run for each in page])
            after = page[-1].id
        assert [len(page) for page in pages] == [2, 2, 1]
        assert {each for page in pages for each in page} == {run.id for run in runs}
