"""The run machine decides: every store does to a run what `core.run.advance` says.

Each test takes one thing that can happen and lets it happen to a run in every state, for every
reason. The rules are not repeated here: what is expected is what the machine answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from onward.core.decision import Moved
from onward.core.inbox import MessageKind, wakes, wakes_unstarted
from onward.core.instant import MINUTE, SECOND
from onward.core.run import (
    CANCELS,
    FAILURES,
    MAX_CRASHES,
    PAUSES,
    REASONS,
    TERMINAL,
    CancelAsked,
    CancelForced,
    Claimed,
    Disowned,
    Freed,
    Held,
    Parked,
    Paused,
    Raised,
    Reason,
    Recorded,
    Released,
    Returned,
    RunState,
    RunStatus,
    Superseded,
    Unwound,
    Woken,
    advance,
)
from onward.engine.sending import cancel
from onward.model.runs import Move, RunOwner
from onward.store import Following
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import NAME, a_message, a_record, a_run

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.core.run import Fact
    from onward.model.runs import ClaimedRun, NewRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

VERSION = "another"
"""The code of a worker that did not park any of the runs."""


# --- runs in every state --------------------------------------------------------------------------


class Cast:
    """One run in every state, each named after it, in a world where a minute has passed."""

    def __init__(self, world: World, worker: Worker) -> None:
        self.world = world
        self.worker = worker
        self.owned: dict[str, ClaimedRun] = {}
        """The runs that were claimed once, as their owner knows them."""
        self.orphans: set[str] = set()
        """The running runs whose worker has no lease any more."""

    async def machine(self, name: str) -> RunStatus:
        """Return a run as the machine sees it."""
        row = await self.store.run(f"uid-{name}")
        reason = None if row.reason is None else Reason(row.reason)
        return RunStatus(RunState(row.state), reason, row.due, row.fence, row.crashes)

    @property
    def store(self) -> Store:
        """The store that all of them are in."""
        return self.worker.store

    @property
    def names(self) -> list[str]:
        """All runs."""
        return [*UNSTARTED, *self.owned]


UNSTARTED = ("unstarted", "delayed", "held", "held delayed")

MOVES: dict[str, Move] = {
    "ready": Move("ready"),
    "waiting": Move("waiting"),
    "waiting for a time": Move("waiting", due_in=10 * MINUTE),
    "waiting, due": Move("waiting", due_in=SECOND),
    **{f"paused for {reason}": Move("paused", reason) for reason in sorted(PAUSES)},
    **{
        f"{state} for {reason}": Move(state, reason)
        for state in sorted(TERMINAL)
        for reason in sorted(REASONS[state], key=str)
    },
}


async def a_cast(world: World, *, deadline: Instant | None = None) -> Cast:
    """Start the runs, each in a queue of its own, and bring each into its state."""
    world.spoiled = True  # most of them lack what belongs to their state, such as an open wait
    worker = await world.worker()
    cast = Cast(world, worker)
    for name in UNSTARTED:
        delay = 10 * MINUTE if "delayed" in name else 0
        await worker.store.start(a_member(name, deadline)._replace(delay_in=delay))
        if "held" in name:
            await worker.store.pause(name)
    for name in ("running", *MOVES):
        cast.owned[name] = await _claimed(worker, a_member(name, deadline))
        if name in MOVES:
            await worker.commit(cast.owned[name], move=MOVES[name])
    for crashes in range(MAX_CRASHES):
        await _let_workers_vanish(cast, crashes, deadline, f"orphan with {crashes} crashes")
    world.clock.advance(MINUTE)
    return cast


def a_member(name: str, deadline: Instant | None) -> NewRun:
    return a_run(name)._replace(queue=name, deadline=deadline)


async def _claimed(worker: Worker, run: NewRun) -> ClaimedRun:
    await worker.store.start(run)
    [claimed] = await worker.claim(queues=(run.queue,))
    return claimed


async def _let_workers_vanish(
    cast: Cast, crashes: int, deadline: Instant | None, name: str
) -> None:
    """Add a running run that workers have vanished with so often, and once more."""
    worker = await cast.world.worker(cast.store)
    run = await _claimed(worker, a_member(name, deadline))
    for _ in range(crashes):
        await worker.leave()
        worker = await cast.world.worker(cast.store)
        [run] = await worker.claim(queues=(name,))
    await worker.leave()
    cast.owned[name] = run
    cast.orphans.add(name)


# --- what is expected -----------------------------------------------------------------------------


def after(run: RunStatus, *facts: Fact, now: int) -> RunStatus:
    """Return a run after the first of these facts that moves it."""
    for fact in facts:
        decision = advance(run, fact, now=now)
        if isinstance(decision, Moved):
            return decision.to
    return run


async def all_follow(
    cast: Cast,
    happens: Callable[[str], Awaitable[object]],
    facts: Callable[[str, RunStatus], tuple[Fact, ...]],
    *,
    but: tuple[str, ...] | set[str] = (),
) -> None:
    """Let something happen to each run; compare what became of it with the machine's answer."""
    now = cast.world.clock.wall()
    differing = {}
    for name in cast.names:
        if name not in but:
            before = await cast.machine(name)
            await happens(name)
            found, expected = await cast.machine(name), after(before, *facts(name, before), now=now)
            if found != expected:
                differing[name] = (found, expected)
    assert differing == {}


# --- claims ---------------------------------------------------------------------------------------


async def claim(cast: Cast, by: Worker, name: str) -> None:
    """Claim a run as a worker does: one that has crashed too often is ended at once."""
    for run in await by.claim(queues=(name,), suspects=9):
        if run.crashes >= MAX_CRASHES:
            await cast.store.give_up(
                RunOwner(by.name, run.uid, run.fence), Move("failed", "crashed")
            )


async def test_a_claim_takes_the_runs_that_the_machine_gives_away(world: World) -> None:
    cast = await a_cast(world)
    other = await world.worker(cast.store)

    await all_follow(
        cast,
        lambda name: claim(cast, other, name),
        lambda name, _: (Claimed(vanished=name in cast.orphans),),
    )


async def test_a_worker_with_other_code_also_takes_runs_that_code_has_parked(world: World) -> None:
    cast = await a_cast(world)
    other = await world.worker(cast.store)

    async def happens(name: str) -> None:
        await cast.store.unpark({NAME: VERSION})
        await claim(cast, other, name)

    await all_follow(
        cast, happens, lambda name, _: (Claimed(vanished=name in cast.orphans, other_code=True),)
    )


# --- what owners report ---------------------------------------------------------------------------

Report = tuple[Move, Callable[[int], "Fact"]]


def _pause(why: Reason) -> Report:
    return Move("paused", why), lambda _: Paused(why)


def _failure(why: Reason) -> Report:
    return Move("failed", why), lambda _: Raised(why)


def _cancel(why: Reason | None) -> Report:
    return Move("cancelled", why), lambda _: Unwound(why)


REPORTS: dict[str, Report] = {
    "a record": (Move("running"), lambda _: Recorded()),
    "a wait": (Move("waiting"), lambda _: Parked()),
    "a wait for a time": (Move("waiting", due_in=MINUTE), lambda now: Parked(now + MINUTE)),
    "a release": (Move("ready"), lambda _: Released()),
    "a return": (Move("succeeded"), lambda _: Returned()),
    "a continuation": (Move("succeeded", "continued"), lambda _: Returned(continued=True)),
    "a passed deadline": (Move("timed_out", "deadline"), lambda _: Unwound(Reason.DEADLINE)),
    **{f"a pause for {why}": _pause(why) for why in sorted(PAUSES)},
    **{f"a failure for {why}": _failure(why) for why in sorted(FAILURES)},
    **{f"a cancel for {why}": _cancel(why) for why in sorted(CANCELS, key=str)},
}


async def test_an_owner_moves_its_run_as_the_machine_says(world: World) -> None:
    cast = await a_cast(world)
    now = world.clock.wall()
    differing = {}
    for report, (move, fact) in REPORTS.items():
        for crashes in (0, 1):
            name = f"{report} after {crashes} crashes"
            run = await _adopted(cast, name, crashes)
            before = await cast.machine(name)
            await _report(cast, run, move)
            found, expected = await cast.machine(name), after(before, fact(now), now=now)
            if found != expected:
                differing[name] = (found, expected)
    assert differing == {}


async def test_who_owns_a_run_no_more_moves_nothing(world: World) -> None:
    cast = await a_cast(world)
    once = [name for name in cast.owned if name in MOVES]
    before = [await cast.machine(name) for name in once]
    now = world.clock.wall()

    for move, fact in REPORTS.values():
        for name, run in zip(once, before, strict=True):
            assert after(run, fact(now), now=now) == run
            await _report(cast, cast.owned[name], move)

    assert [await cast.machine(name) for name in once] == before


async def _report(cast: Cast, run: ClaimedRun, move: Move) -> None:
    await cast.worker.commit(run, a_record(run, 1), move=move)


async def _adopted(cast: Cast, name: str, crashes: int) -> ClaimedRun:
    """Return a run that the worker of the cast owns, after others vanished with it so often."""
    if crashes == 0:
        return await _claimed(cast.worker, a_member(name, None))
    await _let_workers_vanish(cast, crashes - 1, None, name)
    [run] = await cast.worker.claim(queues=(name,), suspects=9)
    return run


async def test_a_worker_releases_the_runs_in_its_name_that_it_does_not_know(world: World) -> None:
    cast = await a_cast(world)

    async def happens(name: str) -> None:
        await cast.store.audit(
            cast.worker.name, {f"uid-{each}" for each in cast.names} - {f"uid-{name}"}
        )

    await all_follow(cast, happens, lambda *_: (Disowned(),), but=cast.orphans)


# --- what others do -------------------------------------------------------------------------------


@each(MessageKind)
async def test_a_message_wakes_the_runs_that_the_machine_wakes(world: World, kind: str) -> None:
    cast = await a_cast(world)
    sent = MessageKind(kind)

    await all_follow(
        cast,
        lambda name: cast.store.send(a_message(name, "m", sent)),
        lambda *_: (Woken(wakes(sent), wakes_unstarted(sent)),),
    )


@each((MessageKind.SIGNAL, MessageKind.CHILD, MessageKind.CANCEL))
async def test_a_message_of_another_run_wakes_the_same_runs(world: World, kind: str) -> None:
    cast = await a_cast(world)
    sent = MessageKind(kind)
    sender = await _claimed(cast.worker, a_member("sender", None))

    async def happens(name: str) -> None:
        await cast.worker.commit(sender, messages=(a_message(f"uid-{name}", "m", sent),))

    await all_follow(cast, happens, lambda *_: (Woken(wakes(sent), wakes_unstarted(sent)),))


async def test_a_pause_holds_the_runs_that_the_machine_holds(world: World) -> None:
    cast = await a_cast(world)

    await all_follow(cast, cast.store.pause, lambda *_: (Held(),))


async def test_a_resume_frees_the_runs_that_the_machine_frees(world: World) -> None:
    cast = await a_cast(world)
    scheduled = {name: (await cast.store.run(f"uid-{name}")).scheduled_at for name in cast.names}
    resumed = wakes(MessageKind.RESUME) - {Reason.OPERATOR}

    await all_follow(
        cast,
        cast.store.resume,
        lambda name, run: (
            Freed(scheduled[name]),
            *((Woken(resumed),) if run.state is RunState.PAUSED else ()),
        ),
    )


async def test_a_cancel_stops_the_runs_that_the_machine_stops(world: World) -> None:
    cast = await a_cast(world)

    await all_follow(
        cast, lambda name: cancel(cast.store, name), lambda *_: (CancelAsked(Reason.OPERATOR),)
    )


async def test_a_deadline_stops_the_runs_that_the_machine_stops(world: World) -> None:
    cast = await a_cast(world, deadline=world.clock.wall() + SECOND)
    before = {name: await cast.machine(name) for name in cast.names}
    now = world.clock.wall()

    await cast.store.overdue()

    found = {name: await cast.machine(name) for name in cast.names}
    assert found == {
        name: after(run, CancelAsked(Reason.DEADLINE), now=now) for name, run in before.items()
    }


async def test_a_forced_cancel_ends_every_open_run(world: World) -> None:
    cast = await a_cast(world)

    await all_follow(
        cast, lambda name: cancel(cast.store, name, force=True), lambda *_: (CancelForced(),)
    )


async def test_a_retry_supersedes_the_runs_that_the_machine_gives_up(world: World) -> None:
    cast = await a_cast(world)

    await all_follow(
        cast,
        lambda name: cast.store.follow(Following(f"uid-{name}", f"uid-{name}-2", "retry_of", None)),
        lambda *_: (Superseded(),),
    )
