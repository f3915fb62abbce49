"""Effects of a worker that loses its run at the worst moment: what the next one makes of them."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from onward import App, NotApplied, Retry, effect, effect_key, workflow
from onward.errors import Unavailable, Unencodable
from tests.kit.ledgers import effect_of, lose_run, outcomes
from tests.kit.watching import until, until_state, working

sent: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()


@effect
async def stored(text: str) -> str:
    sent.append(effect_key())
    return text


@effect
async def unstorable(text: str) -> int:
    sent.append(effect_key())
    return threading.Lock()  # type: ignore[return-value]


@effect(retry=Retry(attempts=1))
async def declined(text: str) -> str:
    sent.append(effect_key())
    raise NotApplied("no money")


@workflow
async def calls(which: str) -> str:
    try:
        if which == "unstorable":
            return str(await unstorable("a"))
        return await (stored if which == "stored" else declined)("a")
    except (NotApplied, Unencodable) as error:
        return f"{type(error).__name__}: {error}"


async def goes_on(app: App, patch: pytest.MonkeyPatch, which: str, state: str) -> str:
    """Return the result of a run whose first worker lost it in that state of its effect."""
    async with app:
        async with app.worker() as worker:
            lost = lose_run(patch, worker.session, state)
            run = await app.start(calls, which)

            async def is_lost() -> bool:
                return bool(lost) and run.uid not in worker.running

            await until(is_lost)
            assert await outcomes(run) == []
        async with working(app):
            return await run.result(timeout="60s")


async def test_a_result_is_read_from_the_ledger_if_history_has_it_not(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await goes_on(app, monkeypatch, "stored", "applied") == "a"
    assert len(sent) == 1


async def test_a_result_that_could_not_be_kept_is_the_same_error_to_the_next_worker(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await goes_on(app, monkeypatch, "unstorable", "applied")).startswith("Unencodable")
    assert len(sent) == 1


async def test_why_it_did_not_happen_is_known_to_the_next_worker(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await goes_on(app, monkeypatch, "declined", "failed") == "NotApplied: no money"
    assert len(sent) == 1


async def test_a_worker_that_lost_its_run_before_the_call_does_not_make_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app:
        async with app.worker() as worker:
            lost = lose_run(monkeypatch, worker.session, "in_flight")
            run = await app.start(calls, "stored")

            async def is_lost() -> bool:
                return bool(lost) and run.uid not in worker.running

            await until(is_lost)
        assert sent == []
        async with working(app):
            info = await effect_of(app, run, "indeterminate")
            await app.effects.resolve(info.id, "applied", result="b", reason="it is so")
            assert await run.result(timeout="60s") == "b"
    assert sent == []


@effect(retry=Retry(attempts=1), rate="1000/s")
async def limited(text: str) -> str:
    raise NotApplied("no money")


@workflow
async def pays(which: str) -> str:
    return await (declined if which == "effect" else limited)("a")


@pytest.mark.parametrize("engine_call", ["effect", "reserve_rate"])
async def test_an_answer_of_a_store_that_is_away_is_of_no_use_to_a_run_that_was_lost_meanwhile(
    memory: App, monkeypatch: pytest.MonkeyPatch, engine_call: str
) -> None:
    unheard: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, told: unheard.append(told))
    async with memory, memory.worker() as worker:
        asked: list[asyncio.Future[object]] = []

        def ask(*_: object) -> asyncio.Future[object]:
            asked.append(loop.create_future())
            return asked[-1]

        run = await memory.start(pays, engine_call)
        await until_state(run, "failed")
        monkeypatch.setattr(worker.session.engine_calls, engine_call, ask)
        await memory.retry(run.id)

        async def is_asked() -> bool:
            return bool(asked)

        await until(is_asked)
        [execution] = worker.running.values()
        execution.drop()
        asked.pop().set_exception(Unavailable("the database", "is away"))
        await asyncio.sleep(0)
        gc.collect()
    assert unheard == []
