"""Hints: who hears what, in whatever loop or thread, and that nothing is missed between waits."""

from __future__ import annotations

import asyncio
import threading

from onward.store.hints import ANYTHING, Exchange, queue_subject, run_subject

LONG = 20.0  # seconds: only a failing test waits that long


def test_subjects_are_told_apart() -> None:
    assert queue_subject("a") != run_subject("a")


async def test_an_ear_hears_its_subjects_and_no_others() -> None:
    exchange = Exchange()
    with exchange.ear(["a", "b"]) as ear:
        exchange.ring(["b", "c"])
        assert await ear.wait(LONG) == {"b"}


async def test_everyone_hears_that_anything_may_have_changed() -> None:
    exchange = Exchange()
    with exchange.ear(["a"]) as one, exchange.ear(["b"]) as other:
        exchange.ring([ANYTHING])
        assert await one.wait(LONG) == await other.wait(LONG) == {ANYTHING}


async def test_hints_before_a_wait_are_gathered_for_it() -> None:
    exchange = Exchange()
    with exchange.ear(["a", "b"]) as ear:
        exchange.ring(["a"])
        exchange.ring(["b"])
        exchange.ring(["a"])
        assert await ear.wait(LONG) == {"a", "b"}
        assert await ear.wait(0) == set()


async def test_a_hint_ends_a_wait() -> None:
    exchange = Exchange()
    with exchange.ear(["a"]) as ear:
        waiting = asyncio.create_task(ear.wait(LONG))
        await asyncio.sleep(0)  # it waits now
        exchange.ring(["a"])
        assert await waiting == {"a"}


async def test_a_poke_ends_a_wait_although_nothing_was_heard() -> None:
    exchange = Exchange()
    with exchange.ear(["a"]) as ear:
        ear.poke()
        assert await ear.wait(LONG) == set()
        assert await ear.wait(0) == set()


async def test_an_ear_may_listen_for_more_later() -> None:
    exchange = Exchange()
    with exchange.ear([]) as ear:
        ear.subjects.add("a")
        exchange.ring(["a"])
        assert await ear.wait(LONG) == {"a"}


async def test_a_hint_from_another_thread_is_heard() -> None:
    exchange = Exchange()
    with exchange.ear(["a"]) as ear:
        thread = threading.Thread(target=exchange.ring, args=(["a"],))
        thread.start()
        assert await ear.wait(LONG) == {"a"}
        thread.join()


def test_an_ear_of_a_loop_that_has_ended_is_passed_over() -> None:
    exchange = Exchange()

    async def forget_to_leave() -> None:
        exchange.ear(["a"]).__enter__()

    asyncio.run(forget_to_leave())

    exchange.ring(["a"])


async def test_a_watcher_is_woken_by_the_first_ear_alone() -> None:
    exchange = Exchange()
    woken: list[bool] = []
    exchange.on_first_ear = lambda: woken.append(exchange.has_ears)

    with exchange.ear(["a"]), exchange.ear(["b"]):
        assert woken == [True]
    assert not exchange.has_ears
    with exchange.ear(["a"]):
        assert woken == [True, True]


async def test_a_wait_that_hears_nothing_ends_in_time() -> None:
    exchange = Exchange()
    with exchange.ear(["a"]) as ear:
        assert await ear.wait(0.03) == set()
