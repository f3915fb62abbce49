"""Waiting for many runs: which of them are looked at, and when."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from onward.core.run import RunState
from onward.engine.results import Results
from onward.model.runs import RunEnd
from onward.store.hints import HintBus, Subscription, run_subject
from onward.testing.clock import VirtualClock, VirtualLoop


def ended(uid: str) -> RunEnd:
    return RunEnd(
        *(uid, RunState.SUCCEEDED, None, b"", "", b"json:1", None, uid, None, None, None),
        *(None, None),
    )


class Runs:
    """What results need of a store. It notes which runs they look at."""

    def __init__(self) -> None:
        self.database = SimpleNamespace(where="memory")
        self.over: set[str] = set()
        self.damaged: set[str] = set()
        self.looks: list[list[str]] = []
        self._hints = HintBus()

    def subscribe(self, subjects: Iterable[str]) -> Subscription:
        return self._hints.subscribe(subjects)

    def publish(self, uid: str) -> None:
        self._hints.publish([run_subject(uid)])

    async def ends(self, uids: Iterable[str]) -> list[RunEnd]:
        self.looks.append(sorted(uids))
        if self.damaged.intersection(self.looks[-1]):
            raise ValueError("damaged")
        return [ended(uid) for uid in self.looks[-1] if uid in self.over]

    async def gone(self, _: Iterable[str]) -> list[str]:
        return []


def test_a_hint_lets_it_look_at_that_run_alone() -> None:
    runs = Runs()

    async def wait() -> None:
        results = Results(cast("Any", runs), runs.ends)
        waiting = {uid: asyncio.ensure_future(results.end_of(uid)) for uid in "abc"}
        await asyncio.sleep(0.1)
        runs.looks.clear()
        runs.over = {"a", "b"}
        runs.publish("b")
        await asyncio.sleep(0.1)
        assert [uid for uid, end in waiting.items() if end.done()] == ["b"]
        assert runs.looks == [["b"]]
        await results.close()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(VirtualClock())) as runner:
        runner.run(wait())


def test_a_run_whose_hint_was_lost_is_found_within_a_second_while_others_change() -> None:
    runs = Runs()

    async def wait() -> None:
        results = Results(cast("Any", runs), runs.ends)
        lost = asyncio.ensure_future(results.end_of("lost"))
        other = asyncio.ensure_future(results.end_of("other"))
        await asyncio.sleep(0.1)
        runs.over = {"lost"}
        for _ in range(12):
            runs.publish("other")
            await asyncio.sleep(0.1)
        assert lost.done()
        assert not other.done()
        await results.close()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(VirtualClock())) as runner:
        runner.run(wait())


def test_a_run_that_cannot_be_read_fails_alone() -> None:
    runs = Runs()
    runs.over, runs.damaged = {"a"}, {"b"}

    async def wait() -> None:
        results = Results(cast("Any", runs), runs.ends)
        a, b, c = (asyncio.ensure_future(results.end_of(uid)) for uid in "abc")
        await asyncio.sleep(0.1)
        assert a.result().uid == "a"
        assert isinstance(b.exception(), ValueError)
        assert not c.done()
        await results.close()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(VirtualClock())) as runner:
        runner.run(wait())
