"""The witness of a simulated world: sees every commit, and says what must never happen.

After each transaction it compares the tables with what it saw before. So it knows which rows the
transaction changed and whose it was, and can hold both the state (`check`) and the step from one
state to the next against the rules. It keeps a copy of its own, in plain dictionaries.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from onward.core.replay import CANCEL_IDENTITY
from onward.core.run import TERMINAL
from onward.runtime.execution.stopping import GRACE
from onward.store.invariants import violated
from onward.store.sqlite.connection import DIALECT
from tests.simulation.simulator.control import Control
from tests.simulation.simulator.ledger_rules import (
    EffectSeen,
    broken_outside,
    doubted,
    taken_over,
    unsendable,
)
from tests.simulation.simulator.limited import SEEN, LimitedSeen, LimitRules
from tests.simulation.simulator.post_rules import PostRules
from tests.simulation.simulator.post_tables import broken_post, unrest
from tests.simulation.simulator.post_view import STATEMENTS as POST_STATEMENTS
from tests.simulation.simulator.post_view import PostView, read_post
from tests.simulation.simulator.rules import (
    RecordSeen,
    RunSeen,
    View,
    broken_families,
    broken_rules,
)
from tests.simulation.simulator.slot_rules import (
    STATEMENTS,
    Slots,
    broken_history,
    broken_slots,
    read_slots,
)
from tests.simulation.simulator.times import Steps
from tests.simulation.simulator.trace import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Instant
    from onward.runtime.attempts.attempt import Attempt
    from onward.store.database import Tx
    from onward.testing.clock import VirtualClock
    from tests.simulation.simulator.line import Memory
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.trace import Trace

STOPPED = ("cancelled", "timed_out")

_STATEMENTS = {
    "witness_runs": """
        SELECT r.uid, r.id, r.state, r.reason, r.due, r.worker, r.fence, r.inbox, r.crashes,
               d.result, d.error, r.parent, r.parent_identity, r.cancel_with_parent, r.follows,
               r.link
        FROM onward_run r JOIN onward_run_data d USING (namespace, uid) ORDER BY r.uid""",
    "witness_records": """
        SELECT run, identity, attempt, seq, kind, state, due, message, payload, error, closed_at
        FROM onward_record ORDER BY run, identity, attempt""",
    "witness_inbox": "SELECT run, seq, message, kind, payload FROM onward_inbox ORDER BY run, seq",
    "witness_leases": "SELECT worker, renewed_at + length FROM onward_lease ORDER BY worker",
    "witness_effects": """
        SELECT key, run, name, state, version, attempt, approved, settle_until, due, verdict,
               known_until
        FROM onward_effect ORDER BY key""",
    "witness_limited": SEEN,
}


class Witness:
    """Watches the database of a world, and writes the trace.

    Args:
        clock: The time that the trace shows.
        trace: Where everything is written down.
    """

    def __init__(self, clock: VirtualClock, trace: Trace) -> None:
        self._clock = clock
        self.steps = Steps(clock)
        """By how much the clock was put forward and back."""
        self.control = Control()
        """What clients have asked of runs as a whole, and who stood still meanwhile."""
        self.limits = LimitRules()
        self._limited: list[LimitedSeen] = []
        self._spoiled: set[str] = set()
        self._changes = -1
        self._seen = View(0, 0)
        self._slots = Slots()
        self.has_schedules = False
        self.has_post = False
        self.post = PostView()
        """The pipelines of the world, if it has any."""
        self.post_rules = PostRules()
        self._doubted: set[str] = set()
        self._earlier: Counter[str] = Counter()
        """The attempts at effects by runs before: a consumer that prepares again counts anew."""
        self._trace = trace
        self.broken: list[str] = []
        self.on_broken: Callable[[], None] = lambda: None
        self.is_over = False
        """Whether the world has ended; what comes after is no part of it."""

    def watch(self, memory: Memory) -> None:
        """Begin to watch a database, which is still empty."""
        self._memory = memory
        for name, text in (_STATEMENTS | STATEMENTS | POST_STATEMENTS).items():
            memory.file.statements[name] = DIALECT.render(name, text)

    def tell(self, process: Process, what: str, *detail: Any) -> None:
        """Write down that something happened, unless the world has ended."""
        if self.is_over:
            return
        self._trace.add(Event(self._clock.monotonic(), process.name, what, detail))

    def accuse(self, rule: str) -> None:
        """Take note that something happened that must never happen."""
        if self.is_over:
            return
        self.broken.append(rule)
        self.on_broken()

    def hold(self, run_id: str) -> None:
        """Take note that the pause of a run was acknowledged."""
        self.control.paused(run_id, self._clock.monotonic())

    def spoil(self, uid: str) -> None:
        """Take note that the world changes the rows of a run by itself."""
        self._spoiled.add(uid)

    # --- what the world asks ---------------------------------------------------------------------

    @property
    def put_forward(self) -> bool:
        """Whether the clock was put forward: then the database takes windows to be over early."""
        return self.steps.forward > 0

    def chain(self, run_id: str) -> set[str]:
        """Return the uids of all runs of an id."""
        return {run.uid for run in self._seen.runs.values() if run.id == run_id}

    def run(self, uid: str) -> RunSeen:
        """Return a run as it stands."""
        return self._seen.runs[uid]

    def open_runs(self) -> list[RunSeen]:
        """Return the runs that are not over."""
        return [
            run
            for run in self._seen.runs.values()
            if run.state not in TERMINAL and run.uid not in self._spoiled
        ]

    def is_recorded(self, uid: str, payload: bytes) -> bool:
        """Say whether a value is the recorded outcome of some step of a run, or of its family."""
        if payload in self.payloads(uid):
            return True
        run = self._seen.runs[uid]
        if run.parent is None and run.follows is None:
            return False
        return any(payload == record.payload for record in self._seen.records.values())

    def payloads(self, uid: str, *, before_cancel: bool = False) -> list[bytes]:
        """Return the recorded results of all steps of a run, or those before it was to stop."""
        cancel = self._seen.records.get((uid, CANCEL_IDENTITY, 1)) if before_cancel else None
        last = math.inf if cancel is None or cancel.seq is None else cancel.seq
        steps = [r for r in self._seen.records.values() if (r.run, r.kind) == (uid, "step")]
        return [r.payload for r in steps if r.payload is not None and (r.seq or 0) < last]

    def is_out_of_grace(self, uid: str) -> bool:
        """Say whether a run was cancelled so long ago that its cleanup may have been cut short."""
        cancel = self._seen.records.get((uid, CANCEL_IDENTITY, 1))
        if cancel is None or cancel.closed_at is None:
            return False
        return cancel.closed_at + GRACE <= self._seen.now

    @property
    def now(self) -> Instant:
        """The database's time."""
        return self._memory.file.time.now()

    def effect_is_sent(self, process: Process, key: str, times: int) -> None:
        """Take note that an effect is sent for the n-th time."""
        self.tell(process, "send", key, times)
        is_doubted, effect = key in self._doubted, self._seen.effects.get(key)
        if effect is not None:
            effect = effect._replace(attempt=effect.attempt + self._earlier[key])
        wrong = unsendable(effect, times, self.now, is_doubted=is_doubted)
        if wrong is not None and not self.put_forward:
            self.accuse(f"{process.name} sent {key}, but {wrong}")

    def compare(self, sent: Counter[str], applied: Counter[str]) -> None:
        """Hold what was sent and applied outside against the ledger, now that all is over."""
        stopped = [run.uid for run in self._seen.runs.values() if run.state in STOPPED]
        for rule in broken_outside(self._seen.effects, sent, applied, stopped):
            if not self.put_forward:
                self.accuse(rule)

    def effects(self) -> list[EffectSeen]:
        """Return the ledger as it stands."""
        return list(self._seen.effects.values())

    def unrest(self, letters: int) -> list[str]:
        """Return what is still to be done in pipelines, if so many letters have come."""
        return unrest(self.post, letters)

    def compare_post(self, answers: dict[str, str], applied: Counter[str]) -> None:
        """Hold what was applied outside against the events, now that all is over."""
        handled, effects = self.post_rules.handled, self._seen.effects
        for rule in broken_post(handled, effects, answers, applied):
            if not self.put_forward:
                self.accuse(rule)

    def look_back(self) -> None:
        """Look at all families, now that every run is over."""
        for rule in (*broken_families(self._seen), *broken_history(self._slots, self.now)):
            self.accuse(rule)

    def step_begins(self, process: Process, step: Attempt) -> None:
        """Take note that the code of a step begins to run.

        A worker that lost its run without knowing may begin what is done already; no one can keep
        it from that. One that still has its run may not.
        """
        self.tell(process, "step", step.run.uid, step.identity, step.number)
        run = self._seen.runs[step.run.uid]
        for rule in self.control.step_begins(process, step, self._seen, self._clock.monotonic()):
            self.accuse(rule)
        done = [
            record
            for record in self._seen.records.values()
            if (record.run, record.identity) == (step.run.uid, step.identity)
            and record.seq is not None
        ]
        if done and run.worker == process.worker and run.worker in self._seen.leases:
            self.accuse(
                f"{process.name} began {step.identity} of {step.run.uid} after it was recorded"
            )

    # --- after each transaction ------------------------------------------------------------------

    def look(self, process: Process) -> None:
        """Look at what a transaction of a process changed."""
        if self._memory.changes == self._changes:
            return
        before = self._seen
        after, violations = self._memory.ask(self._read)
        self._changes = self._memory.changes
        self._seen = after
        self._doubted = doubted(self._doubted, before.effects, after.effects)
        self._earlier += taken_over(before.effects, after.effects)
        post = self.post
        if self.has_post:
            self.post = self._memory.ask(read_post)
        old, new = (dict(each.rows()) for each in (before, after))
        self._tell_rows(process, old | dict(post.rows()), new | dict(self.post.rows()))
        for violation in violations:
            if not self._spoiled.intersection(violation.subjects):
                self.accuse(str(violation))
        for rule in (
            *broken_rules(process, before, after),
            *self.control.transaction(process, before, after),
            *self.limits.look(
                self._limited, self._clock.monotonic(), is_steady=self.steps.are_none
            ),
        ):
            self.accuse(rule)
        if self.has_post:
            for rule in self.post_rules.look(post, self.post, after.effects, after.now):
                self.accuse(rule)
        if self.has_schedules:
            slots, self._slots = self._slots, self._memory.ask(read_slots)
            earliest, latest = after.now - self.steps.forward, after.now + self.steps.back
            for rule in broken_slots(slots, self._slots, earliest, latest):
                self.accuse(rule)

    def _tell_rows(
        self, process: Process, old: dict[tuple[Any, ...], Any], new: dict[tuple[Any, ...], Any]
    ) -> None:
        """Write down which rows a transaction changed."""
        changed = [(key, old.get(key), row) for key, row in new.items() if old.get(key) != row]
        gone = [key for key in old if key not in new]
        if changed or gone:
            rows = [(*key, row if isinstance(row, int) else tuple(row)) for key, _, row in changed]
            claims = any(
                key[0] == "run" and was and was.fence < row.fence for key, was, row in changed
            )
            what = "claim" if claims else "commit"
            self.tell(process, what, *rows, *[("gone", *key) for key in gone])

    async def _read(self, tx: Tx) -> tuple[View, list[Any]]:
        now = self._memory.file.time.now()
        view = View(now, self.steps.steady)
        view.spoiled = frozenset(self._spoiled)
        view.runs = {row[0]: RunSeen._make(row) for row in await tx.fetch("witness_runs")}
        for row in await tx.fetch("witness_records"):
            view.records[row[0], row[1], row[2]] = RecordSeen._make(row)
        view.inbox = {(row[0], row[1]): tuple(row[2:]) for row in await tx.fetch("witness_inbox")}
        view.leases = {row[0]: row[1] for row in await tx.fetch("witness_leases")}
        view.effects = {row[0]: EffectSeen._make(row) for row in await tx.fetch("witness_effects")}
        view.settles = {key: self._settles(view, effect) for key, effect in view.effects.items()}
        self._limited = [LimitedSeen._make(row) for row in await tx.fetch("witness_limited")]
        return view, await violated(tx)

    def _settles(self, view: View, effect: EffectSeen) -> Instant:
        old = self._seen.effects.get(effect.key)
        if old is not None and old.settle_until == effect.settle_until:
            return self._seen.settles[effect.key]
        return view.steady + (effect.settle_until or view.now) - view.now
