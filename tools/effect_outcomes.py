"""Play every case of an effect for real, and write down what came of it.

    python tools/effect_outcomes.py            writes docs/guides/effects-outcomes.md
    python tools/effect_outcomes.py --check    exits with 1 if that page is stale

A case is what the handler did, what the reconciler says and what the operator says. Each is a run
of its own in a database in memory, on a clock that jumps from one thing to the next.
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
    from collections.abc import Callable

    from onward import Run
    from onward.sdk.effects import EffectInfo

PAGE = Path(__file__).parent.parent / "docs" / "guides" / "effects-outcomes.md"

HEAD = """# What comes of an effect

Every case was played by `tools/effect_outcomes.py`, which wrote this page; `make docs` plays them
again. [Effects](effects.md) explains the words.

A dash means that nobody was asked: what happened was known before. "Waits" means that the call in
the body does not return: other branches go on, and when nothing else can move the run is paused for
`reconciliation` or `approval` until an operator has spoken. Where a second call is made, it
returns, unless the handler does the same each time.
"""

MEMORY = """## With `idempotency_window="24h"`

The receiver knows the key, and applies nothing twice under it. Nobody is asked.
"""

APPROVAL = """## With `approve=True`

Nothing is sent before an operator has approved it; from then on all is as above.
"""

CANCEL = """## When the run is cancelled, or its deadline passes

The body gets `CancelledError` in each of these cases, at once, and can clean up. What is under way
finishes first.
"""

NOBODY = "-"
SPOKEN = "what it returned"
RESULT = "the result that was found"
GIVEN = "the operator's result"
PATIENCE_SECONDS = 3600
LONGER_SECONDS = 25 * 3600
REMEMBERED = "the receiver remembers"


class Case(NamedTuple):
    """What everybody does in one run."""

    handler: str
    reconciler: str
    operator: str


class Outcome(NamedTuple):
    """What came of it; the first three are a case, without those who were not asked."""

    handler: str
    reconciler: str
    operator: str
    state: str
    body: str
    sends: int


# --- what they do ---------------------------------------------------------------------------------


class Play:
    """The case that is played, and what was seen of it."""

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
    "returns what cannot be stored": (threading.Lock, False),
    "raises `NotApplied`": (refuse, False),
    "raises `NotApplied` each time": (refuse, True),
    "raises anything else": (lose, False),
    "raises anything else each time": (lose, True),
    "takes too long": (hang, False),
    "its worker vanishes": (hang, False),
}

GONE = "its worker vanishes for more than a day"
LATER_HANDLERS: dict[str, tuple[Callable[[], Any], bool]] = {
    GONE: (hang, False),
    "raises anything else, then `NotApplied` each time": (lose_then_refuse, True),
}
"""What makes a difference only where it is sent again."""

RECONCILERS: dict[str, Callable[[], Any] | None] = {
    "there is none": None,
    "`Applied`": lambda: Applied(RESULT),
    "`NotApplied`": NotApplied,
    "`Unknown`": Unknown,
    "raises": lose,
}

OPERATORS = {
    NOBODY: None,
    "it happened": "applied",
    "it did not": "not_applied",
    "skip": "skip",
    "ask again": "ask_again",
}


async def handle() -> str:
    effect_key()
    play.sends += 1
    does, is_steady = (HANDLERS | LATER_HANDLERS)[play.case.handler]
    answer = does() if play.sends == 1 or is_steady else None
    if asyncio.iscoroutine(answer):
        await answer
    return SPOKEN if answer is None else answer


async def reconcile(*, key: str) -> Any:
    assert key
    play.asked += 1
    if play.is_asked_again:
        return Applied(RESULT)
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
    """Make the call, and say what it came to."""
    try:
        return await KINDS[which]()
    except (NotApplied, EffectSkipped, Unencodable) as error:
        return f"`{type(error).__name__}`"


# --- a case is played -----------------------------------------------------------------------------


def played(case: Case) -> Outcome:
    """Return what came of a case."""
    play.case, play.sends, play.asked = case, 0, 0
    play.is_asked_again = play.was_unsure = False
    clock = VirtualClock()

    async def go() -> Outcome:
        async with App(":memory:", clock=clock, spawn=None) as app:
            run = await app.start(body, _kind(case))
            if case.handler in ("its worker vanishes", GONE):
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
    if case.reconciler == REMEMBERED:
        return known.name
    return blind.name if RECONCILERS[case.reconciler] is None else sought.name


async def _until(app: App, run: Run[str], state: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while [each.state for each in await app.effects.of(run.id)] != [state]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _rests(app: App, run: Run[str]) -> EffectInfo:
    """Wait until nothing happens any more without a human, and return the effect."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await run.state() not in ("paused", "succeeded"):  # noqa: ASYNC110 - no one tells
            await asyncio.sleep(1)
    [info] = await app.effects.of(run.id)
    play.was_unsure = play.was_unsure or info.state == "indeterminate"
    return info


async def _speak(app: App, run: Run[str], case: Case) -> str:
    """Say what the operator says, as often as it is needed; return what that was."""
    verdict, spoken = OPERATORS[case.operator], NOBODY
    while (info := await _rests(app, run)).state == "indeterminate" and verdict is not None:
        spoken = case.operator
        play.is_asked_again = verdict == "ask_again"
        try:
            await _resolve(app, info, verdict)
        except VerdictRefused:
            return f"{spoken} (refused)"
        await asyncio.sleep(1)
        if case.reconciler == REMEMBERED and verdict == "ask_again":
            break  # once is enough: as long as the key is known it could go on
    return spoken


async def _resolve(app: App, info: EffectInfo, verdict: Any) -> None:
    if verdict == "not_applied":  # before that it is refused: a frozen worker could still send
        assert info.judged_from is not None
        await asyncio.sleep((info.judged_from - info.updated_at).total_seconds() + 1)
    given: dict[str, Any] = {"result": GIVEN, "reason": "it is so", "version": info.version}
    await app.effects.resolve(info.id, verdict, **given)


async def _seen(app: App, run: Run[str], case: Case, operator: str) -> Outcome:
    info = await _rests(app, run)
    got = "waits" if await run.state() == "paused" else await run.result()
    reconciler = case.reconciler if play.asked or play.was_unsure else NOBODY
    if operator == "ask again" and reconciler != REMEMBERED:
        operator = "ask again, and now it is `Applied`"
    return Outcome(case.handler, reconciler, operator, f"`{info.state}`", got, play.sends)


def approvals() -> list[Outcome]:
    """Return what came of effects that wait for approval."""
    found = []
    for word in ("nothing", "approves", "rejects"):
        play.case, play.sends = Case("returns", "there is none", NOBODY), 0
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
    """Return what came of effects whose run was cancelled while they waited."""
    cases = {
        "waits for approval": ("returns", approved, "planned"),
        "was refused, and would be sent again": ("raises `NotApplied` each time", blind, "failed"),
        "is uncertain, and waits for a verdict": ("raises anything else", blind, "indeterminate"),
        "is uncertain, and its reconciler does not know": (
            "raises anything else",
            sought,
            "needs_reconcile",
        ),
        "is uncertain, and its receiver knows the key": (
            "raises anything else",
            known,
            "needs_reconcile",
        ),
    }
    found = []
    for text, (handler, each, state) in cases.items():
        play.case, play.sends = Case(handler, "`Unknown`", NOBODY), 0
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
    """Return what came of effects whose receiver knows the key."""
    handlers = [*HANDLERS, *LATER_HANDLERS]
    cases = (Case(*each) for each in product(handlers, [REMEMBERED], OPERATORS))
    return list(dict.fromkeys(played(case) for case in cases))


def page() -> str:
    """Return the whole page as it should be."""
    cases = map(Case._make, product(HANDLERS, RECONCILERS, OPERATORS))
    outcomes = list(dict.fromkeys(map(played, cases)))
    columns = ("handler", "reconciler", "operator", "ledger", "the body gets", "sends")
    table = _table(columns, outcomes)
    kept = [(each.handler, *each[2:]) for each in remembered()]
    memory = _table(tuple(name for name in columns if name != "reconciler"), kept)
    words = [(each.operator, each.state, each.body, each.sends) for each in approvals()]
    small = _table(("operator", "ledger", "the body gets", "sends"), words)
    stopped = _table(("the effect", "ledger", "sends"), cancelled())
    tables = f"{table}\n{MEMORY}\n{memory}\n{APPROVAL}\n{small}\n{CANCEL}\n{stopped}"
    return f"{HEAD}\n{tables}"


def _table(columns: tuple[str, ...], rows: Any) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(keep("Play every case of an effect.", PAGE, page))
