"""Effects that a worker commits through a server: approval, and commits that it sends again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.effect.keys import effect_key
from onward.wire.messages import messages

if TYPE_CHECKING:
    from tests.server.conftest import Worlds


def effect_commit(no: int, run: Any, version: int, state: str, **fields: Any) -> Any:
    """Return a commit that writes an effect to the ledger."""
    row = messages.EffectWrite(
        key=effect_key(run.uid, ":charge#1"),
        run=run.uid,
        identity=":charge#1",
        name="charge",
        state=state,
        version=version,
        **{"approved": 1, "args": b"json:{}", "args_hash": "h"} | fields,
    )
    return messages.Commit(no=no, run=run.uid, fence=run.fence, effects=[row])


async def test_a_worker_cannot_approve_its_effect_with_a_repeated_commit(either: Worlds) -> None:
    async with either.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        sent = effect_commit(3, run, 2, "in_flight", attempt=1)

        assert await worker.commit(effect_commit(1, run, 1, "planned", approved=0)) == {1: "done"}
        assert await worker.commit(effect_commit(2, run, 1, "planned", approved=1)) == {2: "busy"}
        assert await worker.commit(sent) == {3: "write_refused"}


async def test_an_approval_counts_for_the_arguments_that_the_operator_saw(either: Worlds) -> None:
    seen = {"title": "Pay 1 euro", "args": b"json:[1]", "args_hash": "1"}
    other = {"title": "Pay 1000 euros", "args": b"json:[1000]", "args_hash": "1000"}
    async with either.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        planned = effect_commit(1, run, 1, "planned", approved=0, **seen)
        assert await worker.commit(planned) == {1: "done"}
        key = planned.effects[0].key
        await world.client.call("approve", key=key, decision=["only 1 euro", "olga"], yes=True)

        failed = effect_commit(2, run, 3, "failed", **seen)
        assert await worker.commit(failed) == {2: "done"}
        for changes in (other, seen | {"title": other["title"]}, seen | {"args": other["args"]}):
            sent = effect_commit(3, run, 4, "in_flight", attempt=1, **changes)
            assert await worker.commit(sent) == {3: "write_refused"}
        again = effect_commit(4, run, 4, "planned", **(other | {"approved": 0}))
        assert await worker.commit(again) == {4: "done"}
        assert (await world.client.call("effect", key=key))["state"] == "planned"


async def test_what_an_operator_approved_may_be_sent_again(either: Worlds) -> None:
    async with either.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        planned = effect_commit(1, run, 1, "planned", approved=0)
        assert await worker.commit(planned) == {1: "done"}
        decision = ["fine", "olga"]
        await world.client.call("approve", key=planned.effects[0].key, decision=decision, yes=True)
        for no, state in enumerate(("in_flight", "failed", "in_flight", "applied"), 3):
            commit = effect_commit(no, run, no, state, attempt=1)
            assert await worker.commit(commit) == {no: "done"}


async def test_an_effect_commit_is_recognised_on_a_new_stream(either: Worlds) -> None:
    async with either.serve() as world:
        async with world.worker() as worker:
            await world.client.start("r1")
            [run] = await worker.claim()
            for version in (1, 2):
                sent = effect_commit(version, run, version, "in_flight", attempt=version)
                assert await worker.commit(sent) == {version: "done"}
        async with world.stream() as worker:
            await worker.join(is_reconnect=True, held={run.uid: run.fence})
            assert await worker.commit(sent) == {2: "done"}
            applied = effect_commit(3, run, 3, "applied", attempt=2)
            assert await worker.commit(applied) == {3: "done"}
            assert await worker.commit(sent) == {2: "busy"}
