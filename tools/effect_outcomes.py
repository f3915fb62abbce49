"""Execute every case of an effect and write a table of the outcomes.

    python tools/effect_outcomes.py            writes docs/guides/effects-outcomes.md
    python tools/effect_outcomes.py --check    exits with 1 if that page is stale

A case is what the handler does, what the reconciler returns and what the operator decides. Each
case is a separate run in an in-memory database on a virtual clock.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onward import App, Applied, NotApplied, Unknown, effect, effect_key, workflow
from onward.errors import EffectSkipped, Unencodable, VerdictRefused
from onward.testing.clock import VirtualClock, VirtualLoop

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.generated_page import keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward import Run
    from onward.sdk.effects import EffectInfo

PAGE = Path(__file__).parent.parent / "docs" / "guides" / "effects-outcomes.md"

HEAD = """# Outcomes of effects

`make docs` generates this page with `tools/effect_outcomes.py`, which executes every case. For an
explanation of the terms, see [Effects](effects.md).

In the reconciler column, a dash means that the outcome was already known, and "none" means that the
effect has no reconciler. In the operator column, a dash means that no operator has given a verdict.
"Waits" means that the call in the body does not return. Other branches continue; when nothing else
can proceed, the run is paused with the reason `reconciliation` or `approval` until an operator
decides. A second send succeeds, unless the case says "each time".
"""

MEMORY = """## With `idempotency_window="24h"`

The receiver remembers the key and ignores further calls with it. There is no reconciler.
"""

APPROVAL = """## With `approve=True`

No effect is sent until an operator approves it. After that, the tables above apply.
"""

CANCEL = """## When the run is cancelled, or its deadline passes

In the cases below, the body gets `CancelledError` at once and can clean up. If a call is in flight,
the body gets `CancelledError` only when the call has finished.
"""

NOT_ASKED = "-"
HANDLER_RESULT = "the handler's result"
FOUND_RESULT = "the reconciler's result"
OPERATOR_RESULT = "the operator's result"
PATIENCE_SECONDS = 3600
LONGER_SECONDS = 25 * 3600
WINDOW = "idempotency window"


class Case(NamedTuple):
    """What handler, reconciler and operator do in one run."""

    handler: str
    reconciler: str
    operator: str


class Outcome(NamedTuple):
    """The result of a case; a dash stands for a reconciler or operator that was not asked."""

    handler: str
    reconciler: str
    operator: str
    state: str
    body: str
    sends: int


# --- handlers, reconcilers, operators -------------------------------------------------------------


class Play:
    """The current case, and what was observed."""

    case: Case
    sends = 0
    asked = 0
    is_asked_again = False
    was_unsure = False


play = Play()


async def hang() -> None:
    await asyncio.Event().wait()


def refuse() -> None:
    raise NotApplied("not now", after="1s")


def lose() -> None:
    raise ConnectionError("no reply")


def lose_then_refuse() -> None:
    (lose if play.sends == 1 else refuse)()


HANDLERS: dict[str, tuple[Callable[[], Any], bool]] = {
    "returns": (lambda: None, False),
    "returns a value that cannot be stored": (threading.Lock, False),
    "raises `NotApplied`": (refuse, False),
    "raises `NotApplied` each time": (refuse, True),
    "raises another error": (lose, False),
    "raises another error each time": (lose, True),
    "exceeds `timeout`": (hang, False),
    "worker dies": (hang, False),
}

GONE = "worker dies, and the next one starts a day later"
LATER_HANDLERS: dict[str, tuple[Callable[[], Any], bool]] = {
    GONE: (hang, False),
    "raises another error, then `NotApplied` each time": (lose_then_refuse, True),
}
"""Handlers that matter only with an idempotency window."""

RECONCILERS: dict[str, Callable[[], Any] | None] = {
    "none": None,
    "`Applied`": lambda: Applied(FOUND_RESULT),
    "`NotApplied`": NotApplied,
    "`Unknown`": Unknown,
    "raises": lose,
}

OPERATORS = {
    NOT_ASKED: None,
    "`applied`": "applied",
    "`not_applied`": "not_applied",
    "`skip`": "skip",
    "`ask_again`": "ask_again",
}


async def handle() -> str:
    effect_key()
    play.sends += 1
    does, is_steady = (HANDLERS | LATER_HANDLERS)[play.case.handler]
    answer = does() if play.sends == 1 or is_steady else None
    if asyncio.iscoroutine(answer):
        await answer
    return HANDLER_RESULT if answer is None else answer


async def reconcile(*, key: str) -> Any:
    assert key
    play.asked += 1
    if play.is_asked_again:
        return Applied(FOUND_RESULT)
    says = RECONCILERS[play.case.reconciler]
    assert says is not None
    return says()


blind = effect(name="blind")(handle)
sought = effect(name="sought", reconcile=reconcile)(handle)
approved = effect(name="approved", approve=True)(handle)
known = effect(name="known", idempotency_window="24h")(handle)
KINDS = {each.name: each for each in (blind, sought, approved, known)}


@workflow
async def body(which: str) -> str:
    """Make the call and return its result or the type of its error."""
    try:
        return await KINDS[which]()
    except (NotApplied, EffectSkipped, Unencodable) as error:
        return f"`{type(error).__name__}`"


# --- executing a case -----------------------------------------------------------------------------


def played(case: Case) -> Outcome:
    """Execute a case and return its outcome."""
    play.case, play.sends, play.asked = case, 0, 0
    play.is_asked_again = play.was_unsure = False
    clock = VirtualClock()

    async def go() -> Outcome:
        async with App(":memory:", clock=clock, spawn=None) as app:
            run = await app.start(body, _kind(case))
            if case.handler in ("worker dies", GONE):
                async with app.worker(workflows=[body]):
                    await _until(app, run, "in_flight")
            if case.handler == GONE:
                await asyncio.sleep(LONGER_SECONDS)
            async with app.worker(workflows=[body]):
                operator = await _speak(app, run, case)
                return await _seen(app, run, case, operator)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(go())


def _kind(case: Case) -> str:
    if case.reconciler == WINDOW:
        return known.name
    return blind.name if RECONCILERS[case.reconciler] is None else sought.name


async def _until(app: App, run: Run[str], state: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while [each.state for each in await app.effects.of(run.id)] != [state]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _rests(app: App, run: Run[str]) -> EffectInfo:
    """Wait until only an operator can change anything, and return the effect."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await run.state() not in ("paused", "succeeded"):  # noqa: ASYNC110 - no one tells
            await asyncio.sleep(1)
    [info] = await app.effects.of(run.id)
    play.was_unsure = play.was_unsure or info.state == "indeterminate"
    return info


async def _speak(app: App, run: Run[str], case: Case) -> str:
    """Give the operator's verdict as often as needed, and return it."""
    verdict, spoken = OPERATORS[case.operator], NOT_ASKED
    while (info := await _rests(app, run)).state == "indeterminate" and verdict is not None:
        spoken = case.operator
        play.is_asked_again = verdict == "ask_again"
        try:
            await _resolve(app, info, verdict)
        except VerdictRefused:
            return f"{spoken} (refused)"
        await asyncio.sleep(1)
        if case.reconciler == WINDOW and verdict == "ask_again":
            break  # once is enough: it could be repeated while the key is remembered
    return spoken


async def _resolve(app: App, info: EffectInfo, verdict: Any) -> None:
    if verdict == "not_applied":  # refused before that: a frozen worker could still send
        assert info.judged_from is not None
        await asyncio.sleep((info.judged_from - info.updated_at).total_seconds() + 1)
    given: dict[str, Any] = {
        "result": OPERATOR_RESULT,
        "reason": "it is so",
        "version": info.version,
    }
    await app.effects.resolve(info.id, verdict, **given)


async def _seen(app: App, run: Run[str], case: Case, operator: str) -> Outcome:
    info = await _rests(app, run)
    got = "waits" if await run.state() == "paused" else await run.result()
    reconciler = case.reconciler if play.asked or play.was_unsure else NOT_ASKED
    if operator == "`ask_again`" and reconciler != WINDOW:
        operator = "`ask_again`, and the reconciler returns `Applied`"
    return Outcome(case.handler, reconciler, operator, f"`{info.state}`", got, play.sends)


def played_all(handlers: Iterable[str], reconcilers: Iterable[str]) -> list[Outcome]:
    """Execute the cases of these handlers and reconcilers, and return the different outcomes."""
    outcomes = []
    for handler, reconciler in product(handlers, reconcilers):
        alone = played(Case(handler, reconciler, NOT_ASKED))
        outcomes.append(alone)
        if alone.body == "waits":  # otherwise no operator is asked
            verdicts = [each for each in OPERATORS if each != NOT_ASKED]
            outcomes += [played(Case(handler, reconciler, each)) for each in verdicts]
    return list(dict.fromkeys(outcomes))


def approvals() -> list[Outcome]:
    """Return the outcomes of effects that wait for approval."""
    found = []
    for word in ("has not decided", "approves", "rejects"):
        play.case, play.sends = Case("returns", "none", NOT_ASKED), 0
        clock = VirtualClock()

        async def go(word: str = word) -> Outcome:
            app = App(":memory:", clock=clock, spawn=None)  # noqa: B023 - it is called at once
            async with app, app.worker(workflows=[body]):
                run = await app.start(body, "approved")
                info = await _rests(app, run)
                if word == "approves":
                    await app.effects.approve(info.id, reason="it may")
                elif word == "rejects":
                    await app.effects.reject(info.id, reason="it may not")
                await asyncio.sleep(1)
                return await _seen(app, run, play.case, word)

        with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:  # noqa: B023
            found.append(runner.run(go()))
    return found


def cancelled() -> list[tuple[str, str, int]]:
    """Return the outcomes of effects whose run was cancelled while they waited."""
    cases = {
        "is waiting for approval": ("returns", approved, "planned"),
        "was not applied, and is waiting to be retried": (
            "raises `NotApplied` each time",
            blind,
            "failed",
        ),
        "is uncertain, and is waiting for a verdict": (
            "raises another error",
            blind,
            "indeterminate",
        ),
        "is uncertain, and its reconciler returned `Unknown`": (
            "raises another error",
            sought,
            "needs_reconcile",
        ),
        "is uncertain, and has an idempotency window": (
            "raises another error",
            known,
            "needs_reconcile",
        ),
    }
    found = []
    for text, (handler, each, state) in cases.items():
        play.case, play.sends = Case(handler, "`Unknown`", NOT_ASKED), 0
        play.is_asked_again = False
        clock = VirtualClock()

        async def go(each: Any = each, state: str = state) -> str:
            app = App(":memory:", clock=clock, spawn=None)  # noqa: B023 - it is called at once
            async with app, app.worker(workflows=[body]):
                run = await app.start(body, each.name)
                await _until(app, run, state)
                await asyncio.sleep(0.1)
                await run.cancel()
                while await run.state() != "cancelled":  # noqa: ASYNC110 - no one tells
                    await asyncio.sleep(0.1)
                [info] = await app.effects.of(run.id)
                return info.state

        with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:  # noqa: B023
            found.append((text, f"`{runner.run(go())}`", play.sends))
    return found


# --- the page -------------------------------------------------------------------------------------


def remembered() -> list[Outcome]:
    """Return the outcomes of effects with an idempotency window."""
    return played_all([*HANDLERS, *LATER_HANDLERS], [WINDOW])


def page() -> str:
    """Return the text of the page."""
    columns = ("handler", "reconciler", "operator", "ledger state", "the body gets", "sends")
    table = _table(columns, played_all(HANDLERS, RECONCILERS))
    kept = [(each.handler, *each[2:]) for each in remembered()]
    memory = _table(tuple(name for name in columns if name != "reconciler"), kept)
    words = [(each.operator, each.state, each.body, each.sends) for each in approvals()]
    small = _table(("operator", "ledger state", "the body gets", "sends"), words)
    stopped = _table(("the effect", "ledger state", "sends"), cancelled())
    tables = f"{table}\n{MEMORY}\n{memory}\n{APPROVAL}\n{small}\n{CANCEL}\n{stopped}"
    return f"{HEAD}\n{tables}"


def _table(columns: tuple[str, ...], rows: Any) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(keep("Execute every case of an effect.", PAGE, page))
