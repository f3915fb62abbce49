"""What a lane does when members of a batch are put off, held up or cut off: order is kept."""

from __future__ import annotations

import asyncio

import pytest

from onward.errors import Rejected
from onward.store.writing import lane as lanes
from onward.store.writing.lane import Contended, Lane

NAME = "a lane under test"


class Table:
    """What a lane writes to: `bad` rows are refused, `locked` ones held up, `late` ones put off."""

    def __init__(self, bad: str = "", locked: str = "", late: str = "") -> None:
        self.bad, self.locked, self.late = set(bad.split()), set(locked.split()), set(late.split())
        self.rows: list[str] = []
        self.tries = 0
        self.hangs_at = 0
        self.hangs = asyncio.Event()

    async def write(self, items: list[str]) -> list[str | None]:
        self.tries += 1
        if self.tries == self.hangs_at:
            self.hangs.set()
            await asyncio.Event().wait()
        if self.locked & set(items):
            raise Contended("a row", "is locked")
        if self.bad & set(items):
            raise Rejected("a bad value")
        put_off = self.late & set(items[1:])
        self.rows += [item for item in items if item not in put_off]
        return [None if item in put_off else item for item in items]


def a_lane(table: Table) -> Lane[str, str]:
    return Lane(table.write, name=NAME, key=lambda item: item[0])


async def test_nothing_overtakes_what_was_put_off_when_a_batch_is_halved() -> None:
    table = Table(bad="x", late="a2")
    lane = a_lane(table)
    await asyncio.gather(*map(lane.submit, ["a1", "a2", "x", "a3", "b1"]), return_exceptions=True)
    assert [row for row in table.rows if row[0] == "a"] == ["a1", "a2", "a3"]
    assert "b1" in table.rows


async def test_what_follows_a_row_that_is_held_up_stays_behind_it() -> None:
    table = Table(locked="a1")
    lane = a_lane(table)
    held = [lane.submit(item) for item in ("a1", "a2")]
    assert await asyncio.gather(*map(lane.submit, ["b1", "b2"])) == ["b1", "b2"]
    held.append(lane.submit("a3"))
    assert await lane.submit("b3") == "b3"
    table.locked.clear()
    assert await asyncio.gather(*held) == ["a1", "a2", "a3"]
    assert table.rows == ["b1", "b2", "b3", "a1", "a2", "a3"]
    await lane.close()


async def test_a_row_that_is_held_up_for_too_long_is_told_and_its_followers_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "APART_SECONDS", 0)
    table = Table(locked="a1")
    lane = a_lane(table)
    held, follower = lane.submit("a1"), lane.submit("a2")
    with pytest.raises(Contended):
        await held
    assert await follower == "a2"
    await lane.close()


async def test_closing_waits_for_what_is_held_up() -> None:
    table = Table(locked="a1")
    lane = a_lane(table)
    held, follower = lane.submit("a1"), lane.submit("a2")
    assert await lane.submit("b1") == "b1"  # so a1 has been tried, and set apart
    table.locked.clear()
    await lane.close()
    assert [held.result(), follower.result()] == ["a1", "a2"]


@pytest.mark.parametrize(
    ("locked", "hangs_at"),
    [("", 1), ("", 2), ("", 3), ("", 4), ("", 5), ("a1", 3), ("a1", 5), ("a1", 6), ("a1", 7)],
)
async def test_nobody_waits_for_ever_when_the_loop_ends_in_the_middle(
    locked: str, hangs_at: int
) -> None:
    table = Table(bad="x", locked=locked)
    table.hangs_at = hangs_at
    lane = a_lane(table)
    answers = [lane.submit(item) for item in ("a1", "x", "a2", "b1", "b2")]
    await table.hangs.wait()
    for task in asyncio.all_tasks():
        if task.get_name() == NAME:
            task.cancel()
    found = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 60)
    assert any(isinstance(answer, asyncio.CancelledError) for answer in found)
