"""What real workers write passes the checks that a server makes of remote workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, continue_as_new, effect, sleep, start, step, wait_signal, workflow
from onward.core.lease import Fate
from onward.core.owner_rights import OwnerCall
from onward.engine.frame_checks import (
    HeldRun,
    KnownWorker,
    after_commit,
    as_written,
    check_commit,
    check_end,
    check_start,
    children_among,
    facts_needed,
    read_facts,
)
from onward.engine.frame_checks.owners import check_dismissal
from onward.engine.local_worker import LocalWorker
from onward.model.commits import Commit, CommitOutcome
from tests.kit.watching import until_state, working
from tests.sdk.pipelines.post import post, until_counts

if TYPE_CHECKING:
    from onward.model.commits import Answered


class Checks:
    """Checks every write of every local worker, as a server would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refusals: list[Any] = []
        self.checked = 0
        self._runs: dict[str, HeldRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._submit = LocalWorker.submit
        for name in ("claim", "submit", "start", "retry", "continue_run", "end_handler", "dismiss"):
            monkeypatch.setattr(LocalWorker, name, self._wrapped(name, getattr(LocalWorker, name)))

    def _wrapped(self, name: str, inner: Any) -> Any:
        check = getattr(self, f"_on_{name}")

        async def method(worker: LocalWorker, *given: Any, **named: Any) -> Any:
            return await check(inner, worker, *given, **named)

        def submit(worker: LocalWorker, commit: Commit, then: Answered) -> None:
            check(worker, commit, then)

        return submit if name == "submit" else method

    def _known(self, worker: LocalWorker) -> KnownWorker:
        return KnownWorker(worker._worker, frozenset(), self._runs)

    def _note(self, refusal: Any) -> None:
        self.checked += 1
        if refusal is not None:
            self.refusals.append(refusal)

    async def _on_claim(self, inner: Any, worker: LocalWorker, wanted: Any) -> Any:
        answer = await inner(worker, wanted)
        self._runs |= {run.uid: HeldRun.of(run) for run in answer.runs}
        return answer

    def _on_submit(self, worker: LocalWorker, commit: Commit, then: Answered) -> None:
        held = self._runs[commit.run]
        bare = Commit(
            commit.run,
            commit.fence,
            commit.records,
            commit.move,
            starts=commit.starts,
            attached=commit.attached,
        )
        needed = facts_needed(self._known(worker), bare)
        ready = as_written(bare)

        def answered(answer: CommitOutcome | BaseException) -> None:
            is_done = not isinstance(answer, BaseException) and answer.fate is Fate.DONE
            if is_done and (after := after_commit(held, bare)) is not None:
                self._runs[commit.run] = after
            then(answer)

        if not needed:
            self._note(check_commit(self._known(worker), bare))
            self._submit(worker, ready, answered)
            return

        async def read_first() -> None:
            facts = await read_facts(worker._store, held, needed)
            self._note(check_commit(self._known(worker), bare, facts))
            self._submit(worker, ready, answered)

        task = asyncio.get_running_loop().create_task(read_first())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_start(
        self, inner: Any, worker: LocalWorker, by: Any, run: Any, on_conflict: Any
    ) -> Any:
        self._note(check_start(self._known(worker), by, run, on_conflict))
        return await inner(worker, by, run, on_conflict)

    async def _on_retry(
        self, inner: Any, worker: LocalWorker, by: Any, end: Any, *rest: Any, **named: Any
    ) -> Any:
        self._note(check_end(self._known(worker), by, end, OwnerCall.RETRY))
        return await inner(worker, by, end, *rest, **named)

    async def _on_continue_run(
        self, inner: Any, worker: LocalWorker, by: Any, end: Any, given: Any
    ) -> Any:
        self._note(check_end(self._known(worker), by, end, OwnerCall.CONTINUE))
        return await inner(worker, by, end, given)

    async def _on_end_handler(
        self, inner: Any, worker: LocalWorker, by: Any, end: Any, *rest: Any, **named: Any
    ) -> Any:
        self._note(check_end(self._known(worker), by, end, OwnerCall.END_HANDLER))
        return await inner(worker, by, end, *rest, **named)

    async def _on_dismiss(
        self, inner: Any, worker: LocalWorker, by: Any, children: Any, **how: Any
    ) -> Any:
        own = await children_among(worker._store, by.run, children)
        self._note(check_dismissal(self._known(worker), by, children, own))
        return await inner(worker, by, children, **how)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    return Checks(monkeypatch)


@step(cache="1h")
async def double(number: int) -> int:
    return 2 * number


@step(queue="default")
async def routed(number: int) -> int:
    return number + 1


@effect(approve=True)
async def letter(text: str) -> str:
    return f"sent {text}"


@workflow
async def child(number: int) -> int:
    return await double(number) + await routed(number)


@workflow
async def sleeper() -> None:
    await sleep("1h")


@workflow
async def parent(number: int) -> list[int]:
    await sleep("1ms")
    await start(sleeper.options(cancel_with_parent=True))
    slow = asyncio.ensure_future(sleeper())
    doubled = await double.map([1, 2, 3])
    total = await child(number)
    slow.cancel()
    return [total, *doubled]


@workflow
async def approved(text: str) -> str:
    return await letter(text)


tries: list[int] = []


@workflow
async def flaky() -> str:
    await double(4)
    tries.append(1)
    if len(tries) == 1:
        raise ValueError("once")
    return "fine"


@workflow
async def countdown(number: int) -> str:
    if number:
        continue_as_new(number - 1)
    return await wait_signal("end", str)


async def test_workflows_pass(app: App, checks: Checks) -> None:
    tries.clear()
    async with working(app):
        assert await app.run(parent, 5) == [16, 2, 4, 6]
        assert await app.run(flaky.options(retry=Retry(attempts=2, delay="1ms"))) == "fine"
        count = await app.start(countdown, 2)
        await count.signal("end", "now")
        assert await count.result() == "now"
    assert checks.refusals == []
    assert checks.checked > 20


async def test_effects_pass_whether_an_operator_approves_or_rejects(
    app: App, checks: Checks
) -> None:
    async with working(app):
        for verdict in ("approve", "reject"):
            run = await app.start(approved, verdict)
            await until_state(run, "paused")
            [pending] = await app.effects.pending()
            await getattr(app.effects, verdict)(pending.id, reason="a test")
            await until_state(run, "succeeded", "failed")
    assert checks.refusals == []


async def test_pipelines_pass(app: App, checks: Checks) -> None:
    made = post(limit=2)
    made.box += ["a", "b", "c"]

    @workflow
    async def publishes() -> None:
        await onward.publish(made.letters, "d", id="own")

    async with working(app):
        await app.run(publishes)
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert checks.refusals == []
