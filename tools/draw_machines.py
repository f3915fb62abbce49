"""Draw the machines of the core by running every pair of state and fact through them.

    python tools/draw_machines.py            writes docs/internals/machines.md
    python tools/draw_machines.py --check    exits with 1 if that page is stale

Nothing is drawn by hand: each state is covered by samples, each fact by its variants, and an edge
exists because the machine moved.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward.core import delivery, effect, inbox, lease, retry, run, slot, stay
from onward.core.decision import Ignored, Moved
from onward.core.instant import HOUR, SECOND
from onward.core.replay import Ask, Record, RecordKind, RecordState, Replay, Standing
from onward.core.value import changed
from onward.errors import InvariantBroken

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.generated_page import keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PAGE = Path(__file__).parent.parent / "docs" / "internals" / "machines.md"
NOW = 1_000_000_000_000
LATER = NOW + 1

HEAD = """# State machines

`make docs` runs `tools/draw_machines.py`, which generates this page from the machines in
`onward.core`. Each arrow is labeled with the facts that cause the change of state. In the tables,
`-` means that the machine deliberately ignores the fact, `no` means that it refuses the fact, and
`bug` means that only a bug in Onward can cause the fact. If a cell contains several answers, the
answer depends on details of the state or the fact.
"""


@dataclass
class Drawing:
    """The decisions of a machine: cells[fact][state] is the set of answers."""

    title: str
    text: str
    states: list[str]
    first: tuple[str, ...] = ()
    last: Iterable[str] = ()
    cells: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def saw(self, state: str, fact: str, answer: str) -> None:
        self.cells.setdefault(fact, {}).setdefault(state, set()).add(answer)

    def page(self) -> str:
        return "\n".join(
            [f"## {self.title}", "", self.text, "", *self.diagram(), "", *self.table()]
        )

    def diagram(self) -> list[str]:
        lines = ["```mermaid", "stateDiagram-v2"]
        lines += [f"    [*] --> {state}" for state in self.first]
        for before, after in product(self.states, self.states):
            facts = [f for f, row in self.cells.items() if after in row.get(before, set())]
            if facts:
                lines.append(f"    {before} --> {after} : {', '.join(facts)}")
        lines += [f"    {state} --> [*]" for state in self.states if state in set(self.last)]
        return [*lines, "```"]

    def table(self) -> list[str]:
        shown = [s for s in self.states if any(s in row for row in self.cells.values())]
        lines = ["| fact | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
        rank = {answer: place for place, answer in enumerate([*self.states, "-", "no", "bug"])}
        for fact, row in self.cells.items():
            cells = (sorted(row.get(state, ()), key=rank.__getitem__) for state in shown)
            lines.append(f"| {fact} | " + " | ".join(", ".join(cell) for cell in cells) + " |")
        return lines


def draw(
    drawing: Drawing,
    samples: Iterable[Any],
    facts: Mapping[str, Iterable[Any]],
    decide: Callable[[Any, Any], Any],
    name: Callable[[Any], str],
) -> Drawing:
    """Apply every variant of every fact to every sample, and record the answers."""
    for state, (fact, ways) in product(list(samples), facts.items()):
        for way in ways:
            drawing.saw(name(state), fact, answer(decide, state, way, name))
    return drawing


def answer(
    decide: Callable[[Any, Any], Any], state: Any, fact: Any, name: Callable[[Any], str]
) -> str:
    """Return the text for a decision: the new state, or how the fact was rejected."""
    try:
        decision = decide(state, fact)
    except InvariantBroken:
        return "bug"
    if isinstance(decision, Moved):
        return name(decision.to)
    return "-" if isinstance(decision, Ignored) else "no"


def run_machine() -> Drawing:
    reasons = [None, *run.Reason]
    facts: dict[str, Iterable[run.Fact]] = {
        "Claimed": [run.Claimed(*ways) for ways in product([False, True], repeat=2)],
        "Recorded": [run.Recorded()],
        "Parked": [run.Parked(), run.Parked(LATER)],
        "Paused": [run.Paused(reason) for reason in run.Reason],
        "Released": [run.Released()],
        "Returned": [run.Returned(), run.Returned(continued=True)],
        "Raised": [run.Raised(reason) for reason in run.Reason],
        "Unwound": [run.Unwound(reason) for reason in reasons],
        "Disowned": [run.Disowned()],
        "Woken": [
            run.Woken(inbox.wakes(kind), inbox.wakes_unstarted(kind)) for kind in inbox.MessageKind
        ],
        "Held": [run.Held()],
        "Freed": [run.Freed(NOW), run.Freed(LATER)],
        "CancelAsked": [run.CancelAsked(), run.CancelAsked(run.Reason.DEADLINE)],
        "CancelForced": [run.CancelForced()],
        "Superseded": [run.Superseded(), run.Superseded(forked=True)],
    }
    samples = [
        run.RunStatus(state, reason, due, fence, crashes)
        for state in run.RunState
        for reason in sorted(run.REASONS[state], key=str)
        for due in (None, NOW, LATER)
        for fence, crashes in ((0, 0), (1, 0), (9, run.MAX_CRASHES - 1))
        if fence or state in ("ready", "waiting") or reason == run.Reason.OPERATOR
        if due != LATER or state in ("waiting", "paused")
    ]
    drawing = Drawing(
        "Run",
        "This machine is in `onward.core.run`. Its state includes the reason, the fence and the "
        "crash count. A run that has ended never changes.",
        list(run.RunState),
        first=("ready", "waiting"),
        last=run.TERMINAL,
    )
    return draw(
        drawing, samples, facts, lambda s, f: run.advance(s, f, now=NOW), lambda r: str(r.state)
    )


def inbox_machine() -> Drawing:
    drawing = Drawing(
        "Inbox",
        "This machine is in `onward.core.inbox`. It decides how a message changes the state of a "
        "run that has been claimed at least once. The reason for a pause determines which messages "
        "end the pause.",
        [
            "waiting",
            *(f"paused_{reason}" for reason in run.Reason if reason in run.PAUSES),
            "ready",
        ],
    )
    for kind, state in product(inbox.MessageKind, drawing.states):
        word, _, reason = state.partition("_")
        after = inbox.wake(run.RunState(word), run.Reason(reason) if reason else None, kind)
        drawing.saw(state, kind, "-" if after == word else after)
    return drawing


def lease_machine() -> Drawing:
    late = lease.Lease(NOW - lease.LEASE - 1, 0)

    def name(row: lease.Lease | None) -> str:
        if row is None:
            return "gone"
        return "late" if row.until < NOW else "held"

    facts: dict[str, Iterable[lease.Fact]] = {
        "Renewed": [lease.Renewed()],
        "TakenOver": [lease.TakenOver(lease.Lease(NOW, 0))],
        "TakenOver, by a worker that was cut off": [lease.TakenOver(late)],
        "Left": [lease.Left()],
    }
    drawing = Drawing(
        "Lease",
        "This machine is in `onward.core.lease`. A late lease is still valid; it ends only when "
        "its row is deleted.",
        ["held", "late", "gone"],
        first=("held",),
        last=["gone"],
    )
    for state, after in (("held", name(late)), ("late", "-"), ("gone", "-")):
        drawing.saw(state, "(time passes)", after)
    rows = [lease.Lease(NOW, 0), late, None]
    return draw(drawing, rows, facts, lambda s, f: lease.advance(s, f, now=NOW), name)


def stay_machine() -> Drawing:
    drawing = Drawing(
        "Stay",
        "This machine is in `onward.core.stay`. It decides how long a run stays in a worker's "
        "memory. Each decision also includes an action, which is not shown. For example, a `live` "
        "or `draining` run that has nothing left to do is parked, paused or released.",
        [str(state) for state in stay.StayState],
        first=("live",),
        last=["gone"],
    )
    for state, fact in product(stay.StayState, stay.StayFact):
        decision = stay.advance(state, fact)
        is_nothing = decision == stay.StayDecision(state, stay.StayAction.NOTHING)
        drawing.saw(state, fact, "-" if is_nothing else decision.to)
    return drawing


def effect_machine() -> Drawing:
    facts: dict[str, list[effect.Fact]] = {
        "Approved": [effect.Approved(), effect.Approved(is_dropped=True)],
        "ApprovalRejected": [effect.ApprovalRejected()],
        "Sent": [effect.Sent()],
        "HandlerReturned": [effect.HandlerReturned()],
        "RaisedNotApplied": [effect.RaisedNotApplied()],
        "NotStarted": [effect.NotStarted()],
        "Lost": [effect.Lost()],
        "GivenUp": [effect.GivenUp()],
        **{f"Reconciled {a}": [effect.Reconciled(a)] for a in effect.Answer},
        **{
            f"Judged {v}": [effect.Judged(v), effect.Judged(v, is_dropped=True)]
            for v in effect.Verdict
        },
        "Withdrawn": [effect.Withdrawn()],
        "Inherited": [effect.Inherited()],
    }
    samples = [
        effect.LedgerEntry(state, 0, attempt, asks, ok, None, until, known, due, in_doubt)
        for state in effect.EffectState
        for attempt, asks in ((1, 0), (9, 9))
        for ok in ((True, False) if state in ("planned", "failed", "withdrawn") else (True,))
        for until in (None, LATER)
        for known in (None, LATER, NOW + 3600 * SECOND)
        for due in (None, NOW)
        for in_doubt in ((False, True) if state == "in_flight" and known else (False,))
    ]
    drawing = Drawing(
        "Effect",
        "This machine is in `onward.core.effect`. A failed effect may be sent again, because it is "
        "known not to have happened. `Reconciled not_applied` and `Judged not_applied` prove "
        "this only once no frozen worker can still send the effect. An effect in `needs_reconcile` "
        "waits until its reconciler is called or, if its receiver still remembers the key, until "
        "the effect is sent again.",
        list(effect.EffectState),
        first=("planned",),
        last=["applied", "failed", "skipped", "withdrawn"],
    )
    terms = [
        effect.Terms(timeout=1, reconciles=True),
        effect.Terms(timeout=1),
        effect.Terms(timeout=1, idempotency_window=3600 * SECOND),
    ]
    return draw(
        drawing,
        product(samples, terms),
        facts,
        lambda s, f: effect.advance(s[0], f, s[1], now=NOW),
        lambda e: str(e[0].state if isinstance(e, tuple) else e.state),
    )


def delivery_machine() -> Drawing:
    facts: dict[str, list[delivery.Fact]] = {
        "Reserved": [delivery.Reserved("a")],
        "Consumed": [delivery.Consumed("a")],
        "ConsumedWithoutEffect": [delivery.ConsumedWithoutEffect("a")],
        "ReservationReleased": [
            delivery.ReservationReleased("a"),
            delivery.ReservationReleased("a", at_fault=False),
        ],
        "HandedOver": [delivery.HandedOver("a", to="b")],
        "SkippedByOperator": [delivery.SkippedByOperator()],
        "Replayed": [delivery.Replayed()],
    }
    samples = [
        delivery.Delivery(state, run=holder, releases=releases)
        for state in delivery.DeliveryState
        for holder in ((None,) if state == "pending" else ("a", "b"))
        for releases in (0, delivery.MAX_RELEASES - 1)
    ]
    drawing = Drawing(
        "Delivery",
        "This machine is in `onward.core.delivery`. A report from a run counts only while the run "
        "has the event reserved.",
        list(delivery.DeliveryState),
        first=("pending",),
        last=["consumed", "skipped"],
    )
    return draw(drawing, samples, facts, delivery.advance, lambda d: str(d.state))


def phase_machine() -> Drawing:
    drawing = Drawing(
        "Phase of a consumer run",
        "This machine is in `onward.core.delivery`. The phase is derived from the run's records "
        "and never moves back.",
        list(delivery.Phase),
        first=("preparing",),
        last=["committed"],
    )
    kinds = [
        (RecordKind.STEP, delivery.PREPARE),
        (RecordKind.EFFECT, "effect"),
        (RecordKind.STEP, delivery.NEXT),
    ]
    for (kind, name), state, phase in product(kinds, RecordState, delivery.Phase):
        after = delivery.phase_after(phase, kind, name, state)
        how = {RecordState.OPEN: "opened", RecordState.SUCCEEDED: "succeeded"}.get(state, "failed")
        fact = f"{name} {how}"
        drawing.saw(phase, fact, "-" if after is phase else after)
    return drawing


def replay_machine() -> Drawing:
    """Bring a keyed call to each standing, then apply every fact to it."""
    drawing = Drawing(
        "Replay: one call",
        "This machine is in `onward.core.replay`. It tracks one call, whether live or replayed. "
        "Divergence is not shown. A call starts as `recorded` if it is already in the history when "
        "the run is loaded, otherwise as `unknown`. The fact `turn` means that the body is idle "
        "and can receive its next result. The fact `recorded` means that the worker has "
        "written a record of the call with its result; `recorded open` means that it has written "
        "one without a result.",
        list(Standing),
        first=("unknown", "recorded"),
        last=["delivered"],
    )
    for path in paths():
        for fact in ("asked", "turn", "recorded", "recorded open"):
            replay = brought(path)
            before = replay.standing("a=k")
            try:
                done(replay, fact)
                after = replay.standing("a=k")
                drawing.saw(before, fact, "-" if after is before else after)
            except InvariantBroken:
                drawing.saw(before, fact, "bug")
    return drawing


STEP = RecordKind.STEP
CLOSED = Record("a=k", 1, 1, STEP, "a", RecordState.SUCCEEDED)
OPENED = Record("a=k", 1, None, STEP, "a", RecordState.OPEN)
OTHER = Record("z=k", 1, 1, STEP, "z", RecordState.SUCCEEDED)


def paths() -> list[tuple[list[Record], list[str]]]:
    histories: list[list[Record]] = [[], [CLOSED], [OPENED], [OTHER]]
    moves = [
        [],
        ["asked"],
        ["turn"],
        ["asked", "turn"],
        ["turn", "asked"],
        ["asked", "turn", "turn"],
    ]
    live = [["asked", "recorded"], ["asked", "recorded", "turn"]]
    return [*product(histories, moves), *(([], path) for path in live)]


def brought(path: tuple[list[Record], list[str]]) -> Replay:
    history, moves = path
    replay = Replay(history)
    for move in moves:
        done(replay, move)
    return replay


def done(replay: Replay, fact: str) -> None:
    match fact:
        case "asked":
            replay.ask(Ask("", STEP, "a", "k"))
        case "turn":
            replay.next()
        case "recorded":
            replay.recorded(changed(CLOSED, seq=replay.take_position()))
        case _:
            replay.recorded(OPENED)


def retry_machine() -> Drawing:
    drawing = Drawing(
        "Retry",
        "This machine is in `onward.core.retry`. It decides what happens after a failed attempt. "
        "The table is for a policy that sets `attempts`, `only`, `never` and `within`. A listed "
        "error is one in `only`. `again` means that another attempt follows.",
        ["tried", "again", *retry.Why],
        first=("tried",),
        last=retry.Why,
    )
    listed = retry.Retry(attempts=2, only="Listed", never="Never", within="1h")
    errors = {
        "a listed error": retry.AttemptFailure(("Listed",)),
        "another error": retry.AttemptFailure(("Other",)),
        "a Retryable error": retry.AttemptFailure(("Other",), retryable=True),
        "an error never retried": retry.AttemptFailure(("Listed", "Never")),
        "a Fatal error": retry.AttemptFailure(("Listed",), fatal=True),
    }
    for (fact, error), attempt, elapsed in product(errors.items(), (1, 2), (0, HOUR)):
        decided = retry.decide(listed, attempt, error, randomness=0.0, elapsed=elapsed)
        drawing.saw("tried", fact, decided.why if isinstance(decided, retry.GiveUp) else "again")
    return drawing


def slot_machine() -> Drawing:
    by_hand = (slot.Disposition.BACKFILLED, slot.Disposition.TRIGGERED)
    dispositions = [each for each in slot.Disposition if each not in by_hand]
    drawing = Drawing(
        "Slot",
        "This machine is in `onward.core.slot`. The table shows what happens to four late slots "
        "under each catch-up rule (with a cap of 2, and with overlaps allowed), under each overlap "
        "rule (with the catch-up rule `all`), and while the schedule is paused. A `held` slot "
        "waits until the open runs of the schedule have ended.",
        ["passed", *dispositions, "held"],
        first=("passed",),
        last=dispositions,
    )
    due = slot.due_slots(iter([1, 2, 3, 4]), now=NOW)

    def saw(fact: str, rules: slot.Rules, *, is_open: bool = False, paused: bool = False) -> None:
        made = slot.plan(due, rules, now=NOW, open_run=is_open, paused=paused)
        for span in made.spans:
            drawing.saw("passed", fact, span.disposition)
        if made.held is not None:
            drawing.saw("passed", fact, "held")

    for catch_up in slot.CatchUp:
        saw(f"catch-up {catch_up}", slot.Rules(catch_up, slot.Overlap.ALLOW, 2))
    for overlap, is_open in product(slot.Overlap, (False, True)):
        fact = f"overlap {overlap}" + (" with an open run" if is_open else "")
        saw(fact, slot.Rules(slot.CatchUp.ALL, overlap), is_open=is_open)
    saw("paused schedule", slot.Rules(), paused=True)
    return drawing


MACHINES = [
    run_machine,
    replay_machine,
    inbox_machine,
    effect_machine,
    lease_machine,
    stay_machine,
    retry_machine,
    slot_machine,
    delivery_machine,
    phase_machine,
]


def page() -> str:
    """Return the text of the page."""
    return "\n\n".join([HEAD.rstrip(), *(machine().page() for machine in MACHINES)]) + "\n"


if __name__ == "__main__":
    sys.exit(keep("Draw the machines of the core.", PAGE, page))
