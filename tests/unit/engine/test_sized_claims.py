"""Claims of remote workers: as many runs as a reply can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.core.run import rooms_beside
from onward.engine.sized_claims import FIRST_RUNS, SizedClaims
from onward.errors import Unavailable
from onward.model.claims import Wanted
from onward.model.runs import NewRun
from tests.unit.runtime.fake_engine import FakeRun, a_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.runs import ClaimedRun

MIB = 1024 * 1024


class Runs:
    """Runs that are ready, and the claims that took them."""

    def __init__(self, count: int, size: int, crashes: int = 0) -> None:
        self.left = count
        self.run = a_claim(FakeRun(NewRun("uid", "id", "greet", b"x" * size, "hash")))._replace(
            crashes=crashes
        )
        self.asked: list[Wanted] = []
        self.is_away_after: int | None = None

    @property
    def limits(self) -> list[int]:
        return [wanted.limit for wanted in self.asked]

    async def claim(self, wanted: Wanted, repeated: Callable[[], None]) -> list[ClaimedRun]:
        if len(self.asked) == self.is_away_after:
            raise Unavailable("the database", "is away")
        self.asked.append(wanted)
        found = min(wanted.limit, self.left)
        self.left -= found
        return [self.run] * found


def wanted(limit: int, max_bytes: int | None = 16 * MIB) -> Wanted:
    suspects = rooms_beside((), limit)
    return Wanted("w", ("default",), ("greet",), limit, suspects=suspects, max_bytes=max_bytes)


async def test_small_runs_are_claimed_with_one_more_query() -> None:
    runs = Runs(1000, 10)
    claims = SizedClaims(runs.claim)
    answer = await claims.claim(wanted(500))
    assert (len(answer.runs), answer.may_be_more) == (500, True)
    assert runs.limits == [FIRST_RUNS, 500 - FIRST_RUNS]
    assert len((await claims.claim(wanted(500))).runs) == 500
    assert runs.limits[2:] == [500]  # their size is known by now


async def test_a_claim_takes_no_more_large_runs_than_a_reply_can_hold() -> None:
    runs = Runs(1000, MIB)
    claims = SizedClaims(runs.claim)
    first = await claims.claim(wanted(500))
    assert (len(first.runs), first.may_be_more) == (FIRST_RUNS, True)
    assert len((await claims.claim(wanted(500))).runs) == 15
    assert runs.limits == [FIRST_RUNS, 15]


async def test_a_run_that_is_larger_than_a_reply_is_claimed_alone() -> None:
    claims = SizedClaims(Runs(1000, 20 * MIB).claim)
    await claims.claim(wanted(500))
    assert len((await claims.claim(wanted(500))).runs) == 1


async def test_a_claim_that_finds_fewer_runs_than_it_asked_for_is_over() -> None:
    runs = Runs(FIRST_RUNS + 5, 10)
    answer = await SizedClaims(runs.claim).claim(wanted(500))
    assert (len(answer.runs), answer.may_be_more) == (FIRST_RUNS + 5, False)
    assert len(runs.asked) == 2


async def test_an_embedded_worker_claims_runs_of_any_size_at_once() -> None:
    runs = Runs(1000, MIB)
    answer = await SizedClaims(runs.claim).claim(wanted(500, max_bytes=None))
    assert (len(answer.runs), runs.limits) == (500, [500])


async def test_suspects_that_were_taken_leave_less_room_for_others() -> None:
    runs = Runs(1000, 10, crashes=2)
    await SizedClaims(runs.claim).claim(wanted(500))
    assert dict(runs.asked[0].suspects)[2] == 16
    assert dict(runs.asked[1].suspects) == {2: 16 - FIRST_RUNS}


async def test_runs_that_were_taken_are_returned_if_the_database_is_away_then() -> None:
    runs = Runs(1000, 10)
    runs.is_away_after = 1
    answer = await SizedClaims(runs.claim).claim(wanted(500))
    assert (len(answer.runs), answer.was_repeated) == (FIRST_RUNS, True)
    with pytest.raises(Unavailable):
        await SizedClaims(runs.claim).claim(wanted(500))
