"""Group commit: what gathers goes out together, and one bad member harms no other."""

from __future__ import annotations

import asyncio

import pytest

from onward.errors import Rejected, Unavailable
from onward.store.writing.lane import Contended, Lane

NAME = "a lane under test"


class Paper:
    """What a lane writes on: it keeps the batches, and can be told to fail or to wait."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.bad: set[str] = set()
        self.put_off: set[str] = set()
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, items: list[str]) -> list[str | None]:
        await self.gate.wait()
        self.batches.append(items)
        if self.fault is not None:
            raise self.fault
        if self.bad & set(items):
            raise Rejected("a bad value")
        late = self.put_off & set(items[1:])
        return [None if item in late else item.upper() for item in items]


def a_lane(paper: Paper, max_items: int = 500) -> Lane[str, str]:
    return Lane(paper.write, name=NAME, key=lambda item: item[0], max_items=max_items)


async def test_a_lone_write_goes_out_at_once() -> None:
    paper = Paper()

    assert await a_lane(paper).submit("a") == "A"
    assert paper.batches == [["a"]]


async def test_what_arrives_while_a_batch_is_written_becomes_the_next() -> None:
    paper = Paper()
    paper.gate.clear()
    lane = a_lane(paper)
    first = lane.submit("a")
    await asyncio.sleep(0)  # the lane takes what is there
    rest = [lane.submit(item) for item in "bcd"]

    paper.gate.set()

    assert await asyncio.gather(first, *rest) == list("ABCD")
    assert paper.batches == [["a"], ["b", "c", "d"]]
    assert (lane.batches, lane.items) == (2, 4)


async def test_a_batch_has_at_most_so_many_members() -> None:
    paper = Paper()
    lane = a_lane(paper, max_items=2)

    await asyncio.gather(*(lane.submit(item) for item in "abcde"))

    assert paper.batches == [["a", "b"], ["c", "d"], ["e"]]


async def test_a_member_that_has_to_wait_comes_first_in_the_next_batch() -> None:
    paper = Paper()
    paper.put_off = {"b"}
    lane = a_lane(paper)

    assert await asyncio.gather(*(lane.submit(item) for item in "abc")) == list("ABC")
    assert paper.batches == [["a", "b", "c"], ["b"]]


async def test_one_bad_member_is_refused_alone() -> None:
    paper = Paper()
    paper.bad = {"m"}
    lane = a_lane(paper)
    letters = "abcdefghijklmnopqrstuvwxyz"

    answers = await asyncio.gather(*map(lane.submit, letters), return_exceptions=True)

    assert [type(answer) for answer in answers] == [
        Rejected if letter == "m" else str for letter in letters
    ]


async def test_members_are_written_in_the_order_they_came_although_one_is_bad() -> None:
    paper = Paper()
    paper.bad = {"a2"}
    lane = a_lane(paper)

    items = ["a1", "a2", "a3", "b1"]
    await asyncio.gather(*map(lane.submit, items), return_exceptions=True)

    written = [item for batch in paper.batches if not paper.bad & set(batch) for item in batch]
    assert written == ["a1", "a3", "b1"]


@pytest.mark.parametrize("fault", [Unavailable("it", "is away"), ZeroDivisionError()])
async def test_what_fails_the_whole_batch_is_told_to_every_member(fault: Exception) -> None:
    paper = Paper()
    paper.fault = fault
    lane = a_lane(paper)

    answers = await asyncio.gather(*map(lane.submit, "abc"), return_exceptions=True)

    assert answers == [fault] * 3
    assert len(paper.batches) == 1


async def test_a_lane_works_on_after_a_fault() -> None:
    paper = Paper()
    paper.fault = Unavailable("it", "is away")
    lane = a_lane(paper)
    with pytest.raises(Unavailable):
        await lane.submit("a")

    paper.fault = None

    assert await lane.submit("a") == "A"


async def test_a_caller_that_goes_away_changes_nothing_about_its_write() -> None:
    paper = Paper()
    paper.gate.clear()
    lane = a_lane(paper)
    gone, stays = lane.submit("a"), lane.submit("b")
    gone.cancel()

    paper.gate.set()

    assert await stays == "B"
    assert paper.batches == [["a", "b"]]


async def test_closing_waits_for_everything_that_was_submitted() -> None:
    paper = Paper()
    lane = a_lane(paper, max_items=1)
    answers = [lane.submit(item) for item in "abc"]

    await lane.close()

    assert [answer.result() for answer in answers] == list("ABC")


async def test_closing_a_lane_that_was_never_used_returns() -> None:
    await a_lane(Paper()).close()


async def test_nobody_waits_for_ever_when_the_loop_ends() -> None:
    paper = Paper()
    paper.gate.clear()
    lane = a_lane(paper, max_items=1)
    answers = [lane.submit(item) for item in "ab"]
    await asyncio.sleep(0)
    [task] = [task for task in asyncio.all_tasks() if task.get_name() == NAME]

    task.cancel()
    await asyncio.wait([task])

    assert [answer.cancelled() for answer in answers] == [True, True]


async def test_a_member_that_a_lock_holds_up_goes_on_apart_and_others_do_not_wait() -> None:
    held, tried = asyncio.Event(), asyncio.Event()

    async def write(items: list[str]) -> list[str | None]:
        if "a" in items and not held.is_set():
            if items == ["a"]:
                tried.set()
            raise Contended("it", "is held")
        return [item.upper() for item in items]

    lane = Lane(write, name=NAME, key=lambda item: item)
    stuck, other = lane.submit("a"), lane.submit("b")

    assert await other == "B"
    await tried.wait()
    held.set()
    assert await stuck == "A"
    await lane.close()
