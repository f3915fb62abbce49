"""Claims that wait in line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.model.workers import ClaimAnswer
from onward.server.claims import MAX_LOOKS, ClaimLines, Offer, WaitingClaim
from onward.store.hints import ANYTHING, PIPELINES

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT = Offer(("default",), ("greet",), None, (), (), has_pipelines=False)
MAIL = DEFAULT._replace(queues=("mail",))
PIPELINE = DEFAULT._replace(has_pipelines=True)


class Database:
    """Runs that claims find, and how often they looked."""

    def __init__(self) -> None:
        self.ready = 0
        self.looks: list[str] = []
        self.looking = self.most_looking = 0
        self.error: Exception | None = None
        self.on_look: Callable[[], None] = lambda: None
        self.answers: dict[str, ClaimAnswer | Exception] = {}

    def claim(self, name: str, limit: int = 1, offer: Offer = DEFAULT) -> WaitingClaim:
        async def look() -> ClaimAnswer:
            self.looks.append(name)
            self.looking += 1
            self.most_looking = max(self.looking, self.most_looking)
            found = min(limit, self.ready)
            self.ready -= found
            self.on_look()
            await asyncio.sleep(0)
            self.looking -= 1
            if self.error is not None:
                raise self.error
            found_runs: list[Any] = [f"run of {name}"] * found
            return ClaimAnswer(found_runs, may_be_more=found == limit)

        def answer(given: ClaimAnswer | Exception) -> None:
            assert name not in self.answers, "a claim is answered once"
            self.answers[name] = given

        return WaitingClaim(offer, look, answer, until=10.0)


async def settled(lines: ClaimLines) -> None:
    """Wait until no claim looks."""
    while lines._tasks:
        await asyncio.wait(lines._tasks)


def runs(answer: ClaimAnswer | Exception) -> int:
    assert isinstance(answer, ClaimAnswer)
    return len(answer.runs)


async def test_a_claim_looks_at_once_and_is_answered_with_what_it_finds() -> None:
    database, lines = Database(), ClaimLines()
    database.ready = 3
    lines.add(database.claim("a", limit=5))
    await settled(lines)
    assert runs(database.answers["a"]) == 3


async def test_one_look_stands_for_all_claims_that_wait_for_the_same() -> None:
    database, lines = Database(), ClaimLines()
    for name in "abcdefgh":
        lines.add(database.claim(name))
    await settled(lines)
    assert database.looks == ["a"]
    assert not database.answers


async def test_a_hint_wakes_as_many_claims_as_there_is_work_the_oldest_first() -> None:
    database, lines = Database(), ClaimLines()
    for name in "abcdefgh":
        lines.add(database.claim(name))
    await settled(lines)
    database.ready, database.looks = 2, []
    lines.hint({"queue:default"})
    await settled(lines)
    assert list(database.answers) == ["a", "b"]
    assert len(database.looks) <= 4  # two that find something, and at most two that do not


async def test_a_look_that_finds_less_than_it_could_take_is_the_last() -> None:
    database, lines = Database(), ClaimLines()
    for name in "abc":
        lines.add(database.claim(name, limit=10))
    await settled(lines)
    database.ready, database.looks = 7, []
    lines.hint({"queue:default"})
    await settled(lines)
    assert database.looks == ["a"]


async def test_many_claims_look_together_while_there_is_work_but_not_too_many() -> None:
    database, lines = Database(), ClaimLines()
    database.ready = 100
    for number in range(100):
        lines.add(database.claim(str(number)))
    await settled(lines)
    assert len(database.answers) == 100
    assert database.most_looking == MAX_LOOKS


async def test_claims_of_many_lines_do_not_all_look_at_the_same_time() -> None:
    database, lines = Database(), ClaimLines()
    database.ready = 100
    for number in range(100):
        lines.add(database.claim(str(number), offer=DEFAULT._replace(version=str(number))))
    await settled(lines)
    assert sum(map(runs, database.answers.values())) == 100
    assert database.most_looking == MAX_LOOKS


async def test_a_claim_that_is_withdrawn_before_there_is_room_for_it_does_not_look() -> None:
    database, lines = Database(), ClaimLines()
    database.ready = 100
    for number in range(MAX_LOOKS):
        lines.add(database.claim(str(number), offer=DEFAULT._replace(version=str(number))))
    late, next_one = database.claim("late"), database.claim("next")
    lines.add(late)
    lines.add(next_one)
    await asyncio.sleep(0)
    lines.withdraw(late)
    await settled(lines)
    assert "late" not in database.looks
    assert runs(database.answers["next"]) == 1


async def test_claims_that_looked_in_vain_keep_their_places() -> None:
    database, lines = Database(), ClaimLines()
    for name in "abcdefgh":
        lines.add(database.claim(name))
    await settled(lines)
    for _ in range(2):
        database.ready = 4
        lines.hint({"queue:default"})
        await settled(lines)
    assert "".join(database.answers) == "abcdefgh"


async def test_a_hint_during_a_look_that_finds_nothing_is_not_lost() -> None:
    database, lines = Database(), ClaimLines()

    def hint_once() -> None:
        database.on_look = lambda: None
        database.ready = 1
        lines.hint({"queue:default"})

    database.on_look = hint_once
    lines.add(database.claim("a"))
    await settled(lines)
    assert runs(database.answers["a"]) == 1


async def test_a_hint_wakes_only_lines_that_could_take_the_work() -> None:
    database, lines = Database(), ClaimLines()
    claims = {"default": DEFAULT, "mail": MAIL, "pipeline": PIPELINE}
    for name, offer in claims.items():
        lines.add(database.claim(name, offer=offer))
    await settled(lines)
    for subjects, expected in (
        ({"queue:mail"}, {"mail"}),
        ({PIPELINES}, {"pipeline"}),
        ({ANYTHING}, set(claims)),
        ({"run:1"}, set()),
    ):
        database.looks = []
        lines.hint(subjects)
        await settled(lines)
        assert set(database.looks) == expected


async def test_a_claim_that_joins_a_dry_line_does_not_look_before_the_next_poll() -> None:
    dried: list[Any] = []
    database, lines = Database(), ClaimLines(lambda: dried.append(1))
    lines.add(database.claim("a"))
    await settled(lines)
    lines.add(database.claim("b"))
    await settled(lines)
    assert (database.looks, len(dried)) == (["a"], 2)
    lines.poll(now=0.0)
    await settled(lines)
    assert database.looks == ["a", "a"]


async def test_a_claim_looks_in_a_dry_line_while_there_are_limited_runs() -> None:
    database, lines = Database(), ClaimLines()
    lines.add(database.claim("a"))
    await settled(lines)
    lines.always_looks = True
    database.ready = 2
    lines.add(database.claim("b"))
    await settled(lines)
    assert set(database.answers) == {"a", "b"}


async def test_a_poll_answers_claims_that_have_waited_long_enough() -> None:
    database, lines = Database(), ClaimLines()
    lines.add(database.claim("a"))
    await settled(lines)
    lines.poll(now=9.9)
    await settled(lines)
    assert not database.answers
    lines.poll(now=10.0)
    assert runs(database.answers["a"]) == 0


async def test_an_error_is_the_answer_of_one_claim_and_the_others_wait_on() -> None:
    database, lines = Database(), ClaimLines()
    database.error = OSError("away")
    for name in "abc":
        lines.add(database.claim(name))
    await settled(lines)
    assert database.answers == {"a": database.error}
    database.error, database.ready = None, 2
    lines.poll(now=0.0)
    await settled(lines)
    assert set(database.answers) == {"a", "b", "c"}


async def test_a_withdrawn_claim_is_not_answered_and_does_not_look() -> None:
    database, lines = Database(), ClaimLines()
    first, second = database.claim("a"), database.claim("b")
    lines.add(first)
    lines.add(second)
    await settled(lines)
    lines.withdraw(first)
    database.ready, database.looks = 2, []
    lines.hint({ANYTHING})
    await settled(lines)
    assert list(database.answers) == ["b"]


async def test_a_finished_claim_is_answered_now_or_after_its_look() -> None:
    database, lines = Database(), ClaimLines()
    waiting = database.claim("a")
    lines.add(waiting)
    await settled(lines)
    lines.finish(waiting)
    assert runs(database.answers["a"]) == 0
    looking = database.claim("b")
    lines.hint({ANYTHING})
    lines.add(looking)
    lines.finish(looking)
    assert "b" not in database.answers
    await settled(lines)
    assert runs(database.answers["b"]) == 0


async def test_closing_answers_all_claims() -> None:
    database, lines = Database(), ClaimLines()
    for name in "abc":
        lines.add(database.claim(name))
    await lines.close()
    assert set(database.answers) == {"a", "b", "c"}


async def test_the_next_due_time_is_read_again_when_a_run_was_parked_with_one() -> None:
    reads: list[str] = []
    database, lines = Database(), ClaimLines(lambda: reads.append("due"))
    lines.due_changed()
    assert reads == []  # no claim waits for it
    lines.add(database.claim("a"))
    await settled(lines)
    reads.clear()
    lines.due_changed()
    assert reads == ["due"]
