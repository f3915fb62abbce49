"""Hints: who hears what, in whatever loop or thread, and that nothing is missed between waits."""

from __future__ import annotations

import asyncio
import threading

from onward.store.hints import ANYTHING, HintBus, queue_subject, run_subject

LONG = 20.0  # seconds: only a failing test waits that long


def test_subjects_are_told_apart() -> None:
    assert queue_subject("a") != run_subject("a")


async def test_an_ear_hears_its_subjects_and_no_others() -> None:
    hints = HintBus()
    with hints.subscribe(["a", "b"]) as subscription:
        hints.publish(["b", "c"])
        assert await subscription.wait(LONG) == {"b"}


async def test_everyone_hears_that_anything_may_have_changed() -> None:
    hints = HintBus()
    with hints.subscribe(["a"]) as one, hints.subscribe(["b"]) as other:
        hints.publish([ANYTHING])
        assert await one.wait(LONG) == await other.wait(LONG) == {ANYTHING}


async def test_hints_before_a_wait_are_gathered_for_it() -> None:
    hints = HintBus()
    with hints.subscribe(["a", "b"]) as subscription:
        hints.publish(["a"])
        hints.publish(["b"])
        hints.publish(["a"])
        assert await subscription.wait(LONG) == {"a", "b"}
        assert await subscription.wait(0) == set()


async def test_a_hint_ends_a_wait() -> None:
    hints = HintBus()
    with hints.subscribe(["a"]) as subscription:
        waiting = asyncio.create_task(subscription.wait(LONG))
        await asyncio.sleep(0)  # it waits now
        hints.publish(["a"])
        assert await waiting == {"a"}


async def test_a_poke_ends_a_wait_although_nothing_was_heard() -> None:
    hints = HintBus()
    with hints.subscribe(["a"]) as subscription:
        subscription.wake()
        assert await subscription.wait(LONG) == set()
        assert await subscription.wait(0) == set()


async def test_an_ear_may_listen_for_more_later() -> None:
    hints = HintBus()
    with hints.subscribe([]) as subscription:
        subscription.subjects.add("a")
        hints.publish(["a"])
        assert await subscription.wait(LONG) == {"a"}


async def test_a_hint_is_dropped_with_its_subject_and_ends_no_wait() -> None:
    hints = HintBus()
    with hints.subscribe(["a", "b"]) as subscription:
        waiting = asyncio.create_task(subscription.wait(LONG))
        await asyncio.sleep(0)
        hints.publish(["a"])
        asyncio.get_running_loop().call_soon(subscription.discard, "a")
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        hints.publish(["b"])
        assert await waiting == {"b"}


async def test_a_hint_from_another_thread_is_heard() -> None:
    hints = HintBus()
    with hints.subscribe(["a"]) as subscription:
        thread = threading.Thread(target=hints.publish, args=(["a"],))
        thread.start()
        assert await subscription.wait(LONG) == {"a"}
        thread.join()


def test_an_ear_of_a_loop_that_has_ended_is_passed_over() -> None:
    hints = HintBus()

    async def forget_to_leave() -> None:
        hints.subscribe(["a"]).__enter__()

    asyncio.run(forget_to_leave())

    hints.publish(["a"])


async def test_a_watcher_is_woken_by_the_first_ear_alone() -> None:
    hints = HintBus()
    woken: list[bool] = []
    hints.on_first_subscription = lambda: woken.append(hints.has_subscriptions)

    with hints.subscribe(["a"]), hints.subscribe(["b"]):
        assert woken == [True]
    assert not hints.has_subscriptions
    with hints.subscribe(["a"]):
        assert woken == [True, True]


async def test_a_wait_that_hears_nothing_ends_in_time() -> None:
    hints = HintBus()
    with hints.subscribe(["a"]) as subscription:
        assert await subscription.wait(0.03) == set()
