"""Reconcilers: the run asks what became of an effect, until it is known or a verdict is needed."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from onward import App, Applied, NotApplied, Retry, Unknown, effect, effect_key, workflow
from onward.core.instant import SECOND
from onward.errors import BadInput, NotInBody
from onward.testing.clock import VirtualClock, VirtualLoop
from tests.kit.ledgers import effect_of
from tests.kit.watching import until_state, working
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Workflow

T = TypeVar("T")

sent: list[tuple[str, str]] = []
asked: list[str] = []
does: list[Any] = []
says: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    for each in (sent, asked, does, says):
        each.clear()


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reconciler be asked again after moments instead of minutes."""
    soon = Retry(attempts=5, delay="1ms", max_delay="4ms")
    monkeypatch.setattr("onward.core.effect.machine.RECONCILING", soon)


def _said(script: list[Any], otherwise: Any) -> Any:
    answer = script.pop(0) if script else otherwise
    if isinstance(answer, BaseException) and not isinstance(answer, NotApplied):
        raise answer
    return answer


async def look_up(text: str, *, key: str) -> Any:
    asked.append(key)
    answer = _said(says, Unknown())
    if answer == "hangs":
        await asyncio.Event().wait()
    if answer == "raises not applied":
        raise NotApplied("it is not there")
    return answer


def look_up_in_a_thread(text: str, *, key: str) -> Any:
    return Applied(f"{text} found") if key else Unknown()


def act(text: str) -> str:
    sent.append((text, effect_key()))
    answer = does.pop(0) if does else text
    if isinstance(answer, BaseException):
        raise answer
    return str(answer)


@effect(reconcile=look_up, timeout="20ms", settle="0s")
async def brisk(text: str) -> str:
    return act(text)


# Proof counts soon; a worker that is too slow makes an attempt of it, but does not send.
@effect(reconcile=look_up, timeout="50ms", settle="0s", start_within="250ms")
async def brief(text: str) -> str:
    return act(text)


@effect(reconcile=look_up, timeout="30s", settle="10s")
async def usual(text: str) -> str:
    return act(text)


@effect(reconcile=look_up_in_a_thread)
async def sought_in_a_thread(text: str) -> str:
    return act(text)


@workflow
async def briskly() -> str:
    return await brisk("a")


@workflow
async def briefly() -> str:
    try:
        return await brief("a")
    except NotApplied as error:
        return f"not applied: {error}"


@workflow
async def usually() -> str:
    return await usual("a")


@workflow
async def in_a_thread() -> str:
    return await sought_in_a_thread("a")


def lost(times: int = 1) -> None:
    does.extend([ConnectionError("lost")] * times)


async def test_what_the_reconciler_found_is_the_result_and_nothing_is_sent_again(app: App) -> None:
    lost()
    says[:] = [Applied("found")]
    async with working(app):
        run = await app.start(briskly)
        assert await run.result(timeout="60s") == "found"

        [info] = await app.effects.of(run.id)
        assert (info.state, info.result, info.attempt, info.why) == ("applied", "found", 1, None)
        assert (len(sent), asked) == (1, [info.id])


async def test_a_reconciler_may_be_a_plain_function(app: App) -> None:
    lost()
    async with working(app):
        assert await app.run(in_a_thread) == "a found"


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize(
    "said",
    [
        Unknown(),
        None,
        KeyError("a bug"),
        SystemExit(1),
        asyncio.CancelledError(),
        Applied(object()),
        "hangs",
    ],
    ids=lambda said: type(said).__name__,
)
async def test_a_reconciler_that_cannot_tell_is_asked_five_times(app: App, said: Any) -> None:
    lost()
    says[:] = [said] * 9
    async with working(app):
        run = await app.start(briskly)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")

        assert (len(sent), len(asked), info.asks) == (1, 5, 5)
        assert info.why == "ConnectionError: lost"
        assert info.can_be_asked


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit("x"), "SystemExit: x"),
        (asyncio.CancelledError("x"), "asyncio.exceptions.CancelledError: x"),
        (Applied(object()), "brisk() is an object, but its annotation is str"),
        ("hangs", "TimeoutError"),
        (None, "TypeError: the reconciler returned NoneType, not Applied, NotApplied or Unknown"),
        (Applied, "TypeError: the reconciler returned type, not Applied, NotApplied or Unknown"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
async def test_a_reconciler_that_fails_is_logged_with_its_error(
    memory: App, said: Any, error: str
) -> None:
    lost()
    says[:] = [said]
    with a_log() as log:
        async with working(memory):
            run = await memory.start(briskly)
            await until_state(run, "waiting")
            [info] = await memory.effects.of(run.id)

    [record] = [each for each in log.records if vars(each).get("event") == "effect.unanswered"]
    assert (record.name, record.levelname) == ("onward.effect", "WARNING")
    start = f"effect.unanswered: run={run.id} effect=brisk key={info.id} error="
    assert record.getMessage().startswith(start)
    assert str(vars(record)["error"]).startswith(error)


@pytest.mark.parametrize("said", [Unknown(), NotApplied(), "raises not applied"], ids=str)
async def test_a_reconciler_that_answers_is_not_logged(memory: App, said: Any) -> None:
    lost()
    says[:] = [said]
    with a_log() as log:
        async with working(memory):
            run = await memory.start(briskly)
            await until_state(run, "waiting")

    assert len(asked) == 1
    assert "effect.unanswered" not in log.events


@pytest.mark.usefixtures("_soon")
async def test_asking_again_is_the_run_itself_waking_up_also_when_it_left_memory(app: App) -> None:
    lost()
    says[:] = [Unknown(), Unknown(), Applied("found")]
    async with working(app, warm=0):
        assert await app.run(briskly) == "found"
    assert (len(sent), len(asked)) == (1, 3)


@pytest.mark.parametrize(
    "said", [NotApplied("nothing there"), NotApplied, "raises not applied"], ids=str
)
async def test_what_is_proven_not_to_have_happened_is_sent_again_under_its_key(
    app: App, said: Any
) -> None:
    lost()
    says[:] = [said] * 9
    async with working(app):
        run = await app.start(often)
        assert await run.result(timeout="60s") == "a"
        [info] = await app.effects.of(run.id)
        assert (info.attempt > 1, info.state) == (True, "applied")
    assert len(sent) == 2
    assert len({key for _, key in sent} | set(asked)) == 1


async def test_the_ledger_says_that_the_reconciler_settled_an_effect(memory: App) -> None:
    lost()
    says[:] = [Applied("found")]
    async with working(memory):
        run = await memory.start(briskly)
        assert await run.result(timeout="60s") == "found"
        [info] = await memory.effects.of(run.id)
        assert (info.settled_by, info.asks) == ("reconciler", 1)


async def test_the_ledger_says_that_the_handler_settled_what_was_sent_again(memory: App) -> None:
    lost()
    says[:] = [NotApplied()] * 9
    async with working(memory):
        run = await memory.start(briefly)
        assert await run.result(timeout="60s") == "a"
        [info] = await memory.effects.of(run.id)
        assert (info.settled_by, info.asks) == ("handler", 0)


async def test_the_ledger_says_that_the_reconciler_disproved_the_last_send(memory: App) -> None:
    lost(9)
    says[:] = [NotApplied()] * 20
    async with working(memory):
        run = await memory.start(briefly)
        assert (await run.result(timeout="60s")).startswith("not applied")
        [info] = await memory.effects.of(run.id)
        assert (info.state, info.settled_by, info.asks) == ("failed", "reconciler", 1)


async def answer_the_second_send(text: str, *, key: str) -> Any:
    if len(sent) == 1:
        return NotApplied()
    return _said(says, Unknown())


@effect(reconcile=answer_the_second_send, timeout="50ms", settle="0s", start_within="250ms")
async def sent_twice(text: str) -> str:
    return act(text)


@workflow
async def sends_twice() -> str:
    return await sent_twice("a")


@pytest.mark.usefixtures("_soon")
async def test_every_send_and_every_answer_of_the_reconciler_is_listed(app: App) -> None:
    lost(2)
    says[:] = [ValueError("no such order"), Unknown(), Applied("found")]
    async with working(app):
        run = await app.start(sends_twice)
        assert await run.result(timeout="60s") == "found"
        [info] = await app.effects.of(run.id)
    # How often these happen depends on the machine.
    told = [each for each in info.attempts if each.outcome not in ("not_started", "too_early")]
    assert [(each.kind, each.outcome, each.error) for each in told] == [
        ("send", "unknown", "ConnectionError"),
        ("reconcile", "not_applied", None),
        ("send", "unknown", "ConnectionError"),
        ("reconcile", "unknown", "ValueError"),
        ("reconcile", "unknown", None),
        ("reconcile", "applied", None),
    ]
    for kind in ("send", "reconcile"):
        numbers = [each.number for each in info.attempts if each.kind == kind]
        assert numbers == list(range(1, len(numbers) + 1))
    times = [time for each in info.attempts for time in (each.began_at, each.ended_at)]
    assert times == sorted(time for time in times if time is not None)
    assert info.reconciler == "answer_the_second_send"


async def test_not_applied_is_believed_only_when_no_worker_can_send_any_more(app: App) -> None:
    lost()
    says[:] = [NotApplied()] * 9
    async with working(app):
        run = await app.start(usually)
        await until_state(run, "waiting")
        [info] = await app.effects.of(run.id)

        assert (len(sent), len(asked), info.state, info.asks) == (1, 1, "needs_reconcile", 0)
        assert [each.outcome for each in info.attempts] == ["unknown", "too_early"]
        assert info.asked_at is not None
        assert info.judged_from is not None
        assert abs((info.asked_at - info.judged_from).total_seconds()) < 10


async def test_proof_lets_it_be_sent_three_times(app: App) -> None:
    lost(9)
    says[:] = [NotApplied()] * 20
    async with working(app):
        run = await app.start(briefly)
        assert await run.result(timeout="60s") == (
            "not applied: effect 'brief' did not happen after 3 sends;"
            " last error: ConnectionError: lost"
        )
        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt) == ("failed", 3)
    assert 0 < len(sent) <= 3


async def test_proof_lets_it_be_sent_as_often_as_its_policy_says_and_at_once(app: App) -> None:
    lost(9)
    says[:] = [NotApplied()] * 20
    async with working(app):
        run = await app.start(often)
        assert await run.result(timeout="60s") == "not applied"
        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt, info.tries) == ("failed", 5, 5)
    assert 0 < len(sent) <= 5


@effect(
    reconcile=look_up,
    retry=Retry(attempts=5, delay="1h", max_delay="1h", only=ValueError),
    timeout="50ms",
    settle="0s",
    start_within="250ms",
)
async def tried_often(text: str) -> str:
    return act(text)


@workflow
async def often() -> str:
    try:
        return await tried_often("a")
    except NotApplied:
        return "not applied"


async def test_a_key_in_a_reconciler_is_refused(memory: App) -> None:
    lost()
    async with working(memory):
        assert await memory.run(wrong_key) == "NotInBody"


async def ask_for_a_key(*, key: str) -> Any:
    try:
        return Applied(effect_key())
    except NotInBody as error:
        return Applied(type(error).__name__)


@effect(reconcile=ask_for_a_key)
async def keyless() -> str:
    return act("a")


@workflow
async def wrong_key() -> str:
    return await keyless()


# --- what is refused where it is declared ---------------------------------------------------------


async def charge(cents: int) -> None: ...


async def charge_in(cents: int, currency: str = "eur", *, to: str) -> None: ...


async def charge_by_key(key: str) -> None: ...


async def charge_all(*cents: int) -> None: ...


def find_nothing(*, key: str) -> None: ...


def find(cents: int) -> None: ...


def find_by(cents: int, key: str) -> None: ...


def find_any(*args: Any, **kwargs: Any) -> None: ...


def find_in(cents: int, currency: str = "eur", *, to: str, key: str) -> None: ...


def find_in_exactly(cents: int, currency: str, *, to: str, key: str) -> None: ...


class Unreadable:
    __signature__ = "none of your business"

    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("fn", "reconcile", "message"),
    [
        (
            charge,
            find,
            "effect 'charge' has a reconciler find(cents) that does not take key=. "
            "Write it with the same parameters and key: def find(cents, *, key)",
        ),
        (
            charge,
            find_nothing,
            "effect 'charge' has a reconciler find_nothing(*, key) that does not take the arguments"
            " of the effect. Write it with the same parameters and key: "
            "def find_nothing(cents, *, key)",
        ),
        (charge_in, find_by, "def find_by(cents, currency='eur', *, to, key)"),
        (charge_in, find_in_exactly, "def find_in_exactly(cents, currency='eur', *, to, key)"),
        (
            charge_by_key,
            look_up_in_a_thread,
            "effect 'charge_by_key' has a parameter named key, but its reconciler receives the"
            " effect key as key=. Give the parameter another name",
        ),
        (charge_in, find_in, None),
        (charge, find_by, None),
        (charge, find_any, None),
        (charge_all, find, None),  # the number of its arguments is not known
        (charge, Unreadable(), None),
        (charge, "find", "effect 'charge' has a reconcile= of type"),
    ],
)
def test_a_reconciler_that_could_not_be_called_is_refused(
    fn: Any, reconcile: Any, message: str | None
) -> None:
    if message is None:
        assert effect(reconcile=reconcile)(fn).definition.reconcile is reconcile
        return
    with pytest.raises(BadInput) as refused:
        effect(reconcile=reconcile)(fn)
    assert message in str(refused.value)


def test_the_reconciler_of_a_method_is_not_given_self() -> None:
    class Bank:
        async def charge(self, cents: int) -> None: ...

        def find(self, cents: int, *, key: str) -> None: ...

    assert effect(reconcile=find_by)(Bank.charge).name == "charge"
    with pytest.raises(BadInput, match=r"def find\(cents, \*, key\)"):
        effect(reconcile=Bank.find)(Bank.charge)


def test_a_reconciler_is_taken_for_what_is_called_and_not_for_what_it_wraps() -> None:
    @wraps(find)
    def find_with_key(cents: int, *, key: str) -> None: ...

    assert effect(reconcile=find_with_key)(charge).name == "charge"


# --- in virtual time ------------------------------------------------------------------------------


def in_virtual_time(work: Callable[[App, VirtualClock], Awaitable[T]]) -> T:
    clock = VirtualClock()

    async def go() -> T:
        app = App(":memory:", clock=clock, spawn=None)
        async with app:
            return await work(app, clock)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(go())


async def finished(app: App, started: Workflow[[], str]) -> str:
    async with app.worker(workflows=[started]):
        return await (await app.start(started)).result()


def test_not_applied_counts_after_the_time_to_start_to_call_and_to_settle() -> None:
    lost()
    says[:] = [NotApplied()] * 9
    times: list[int] = []

    async def work(app: App, clock: VirtualClock) -> int:
        begun = clock.monotonic()
        assert await finished(app, usually) == "a"
        times.append(clock.monotonic() - begun)
        return len(asked)

    assert in_virtual_time(work) == 2
    assert 55 * SECOND <= times[0] < 57 * SECOND
    assert len(sent) == 2


def test_a_reconciler_that_does_not_know_is_asked_for_minutes() -> None:
    lost()
    says[:] = [Unknown()] * 4 + [Applied("at last")]

    async def work(app: App, clock: VirtualClock) -> float:
        begun = clock.monotonic()
        assert await finished(app, usually) == "at last"
        return (clock.monotonic() - begun) / SECOND

    assert 150 <= in_virtual_time(work) < 170
    assert (len(sent), len(asked)) == (1, 5)


@effect(reconcile=look_up, timeout="30s", settle="10s")
async def suspended(text: str) -> str:
    clock = suspensions.pop(0) if suspensions else None
    if clock is not None:
        clock.advance(46 * SECOND)  # the machine sleeps before the handler could send
    return act(text)


suspensions: list[VirtualClock] = []


@workflow
async def on_a_laptop() -> str:
    return await suspended("a")


def test_a_handler_that_slept_too_long_gets_no_key_and_does_not_send() -> None:
    says[:] = [NotApplied()] * 9

    async def work(app: App, clock: VirtualClock) -> str:
        suspensions[:] = [clock]
        return await finished(app, on_a_laptop)

    assert in_virtual_time(work) == "a"
    assert len(sent) == 1
    assert len(asked) >= 1


@effect(reconcile=look_up, retry=Retry(attempts=1))
async def refused_once(text: str) -> str:
    return act(text)


@workflow
async def fails_once() -> str:
    return await refused_once("a")


async def test_a_retry_of_the_run_goes_on_with_the_list_of_sends(memory: App) -> None:
    does[:] = [NotApplied("closed")]
    async with working(memory):
        run = await memory.start(fails_once.options(id="a"))
        with pytest.raises(NotApplied):
            await run.result(timeout="60s")
        again = await memory.retry("a")
        assert await again.result(timeout="60s") == "a"
        [info] = await memory.effects.of("a")
    assert [(each.number, each.outcome, each.error) for each in info.attempts] == [
        (1, "not_applied", "onward.errors.NotApplied"),
        (2, "returned", None),
    ]
    assert info.attempt == 1
