"""Claims of runs that are together no larger than is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.flow import FlowId, FlowKind
from onward.model.claims import ROW_BYTES, ClaimNotes, size_of_run
from onward.model.flow import DeclaredLimits
from tests.conformance.suite.samples import NAME, QUEUE, SUCCEEDED, a_run

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun, NewRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

MAX = 20_000
"""How large the runs of a claim may be; two of `LARGE`, and something small."""
LARGE = 9_000


def sized(id: str, size: int = LARGE) -> NewRun:  # noqa: A002 - it is the user's word
    """Return a run of a size."""
    return a_run(id)._replace(input=b"j" + b"1" * (size - ROW_BYTES - 1))


def ids(claimed: list[ClaimedRun]) -> list[str]:
    return [run.id for run in claimed]


async def claims(worker: Worker, *, limited: bool = False) -> list[list[str]]:
    """Return what one claim after the other takes, until there is no more."""
    found: list[list[str]] = []
    while claimed := await worker.claim(limited=limited, max_bytes=MAX):
        found.append(ids(claimed))
    return found


async def test_a_claim_takes_the_first_runs_that_are_not_too_large_together(world: World) -> None:
    worker = await world.worker()
    for number in range(5):
        await worker.store.start(sized(str(number)))
        world.clock.advance(1)
    await worker.store.start(sized("urgent")._replace(priority=1))

    assert await claims(worker) == [["urgent", "0"], ["1", "2"], ["3", "4"]]


async def test_a_claim_says_whether_runs_were_left_because_of_their_size(world: World) -> None:
    worker = await world.worker()
    for number in range(3):
        await worker.store.start(sized(str(number)))
    first, last = ClaimNotes(), ClaimNotes()

    assert len(await worker.claim(max_bytes=MAX, notes=first)) == 2
    assert len(await worker.claim(max_bytes=MAX, notes=last)) == 1
    assert (first.is_cut, last.is_cut) == (True, False)


async def test_runs_that_are_exactly_as_large_as_is_wanted_are_claimed_together(
    world: World,
) -> None:
    worker, notes = await world.worker(), ClaimNotes()
    await worker.store.start(sized("a", MAX - LARGE))
    await worker.store.start(sized("b"))

    claimed = await worker.claim(max_bytes=MAX, notes=notes)

    assert sum(map(size_of_run, claimed)) == MAX
    assert not notes.is_cut


async def test_a_run_that_is_larger_than_is_wanted_is_claimed_alone(world: World) -> None:
    worker = await world.worker()
    for name, size in (("a", 600), ("b", 600), ("huge", 3 * MAX), ("c", 600)):
        await worker.store.start(sized(name, size))
        world.clock.advance(1)

    assert await claims(worker) == [["a", "b"], ["huge"], ["c"]]


async def test_attributes_count(world: World) -> None:
    worker = await world.worker()
    for number in range(3):
        run = sized(str(number), 600)._replace(attributes=b"j" + b"1" * (LARGE - 601))
        await worker.store.start(run)
        world.clock.advance(1)

    assert await claims(worker) == [["0", "1"], ["2"]]


async def test_no_crash_is_counted_for_an_orphan_that_was_left(world: World) -> None:
    """All orphans come first, in no particular order."""
    gone, heir = await world.worker(), await world.worker()
    await gone.given(*(sized(str(number)) for number in range(5)))
    await gone.leave()

    found = [await heir.claim(max_bytes=MAX) for _ in range(3)]

    assert [len(claimed) for claimed in found] == [2, 2, 1]
    runs = [run for claimed in found for run in claimed]
    assert len({run.uid for run in runs}) == 5
    assert {(run.fence, run.crashes) for run in runs} == {(2, 1)}


async def test_a_run_whose_data_is_lost_is_claimed(world: World) -> None:
    world.spoiled = True
    worker = await world.worker()
    await worker.store.start(sized("a"))
    await world.sql("DELETE FROM onward_run_data")

    assert await claims(worker) == [["a"]]


async def test_keys_take_turns_in_claims_that_are_cut(world: World) -> None:
    worker = await world.worker()
    for key in "abc":
        for number in range(3):
            await worker.store.start(sized(f"{key}{number}")._replace(flow_key=key))
            world.clock.advance(1)

    assert await claims(worker, limited=True) == [
        ["a0", "b0"], ["c0", "a1"], ["b1", "c1"], ["a2", "b2"], ["c2"],
    ]  # fmt: skip


async def test_a_run_that_was_cut_off_does_not_use_up_a_limit(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(FlowId(FlowKind.WORKFLOW, NAME), DeclaredLimits(3))
    await worker.store.declare(FlowId(FlowKind.QUEUE, QUEUE), DeclaredLimits(3))
    for number in range(5):
        await worker.store.start(sized(str(number)))
        world.clock.advance(1)

    first = await worker.claim(limited=True, max_bytes=MAX)
    second = await worker.claim(limited=True, max_bytes=MAX)

    assert (ids(first), ids(second)) == (["0", "1"], ["2"])
    assert await worker.claim(limited=True, max_bytes=MAX) == []
    await worker.commit(first[0], move=SUCCEEDED)
    assert ids(await worker.claim(limited=True, max_bytes=MAX)) == ["3"]
