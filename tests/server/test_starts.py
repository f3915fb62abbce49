"""What a server accepts of clients that start runs, by what their keys allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onward.engine.bulk import BULK_WORKFLOW
from onward.model.runs import NewRun
from onward.wire.messages import messages
from tests.server.raw import succeeded, uid_of
from tests.server.test_keys import a_key, client_of

if TYPE_CHECKING:
    from tests.server.conftest import Worlds

ROW = NewRun(uid_of("r2"), "r2", "greet", b"json:[]", "h")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"parent": uid_of("r1"), "parent_identity": "greet#1"}, "bad_input"),
        ({"origin": uid_of("r1")}, "bad_input"),
        ({"kind": "consumer", "handler": "mail.add_row"}, "bad_input"),
        ({"queue": ""}, "bad_input"),
        ({"priority": 1 << 70}, "bad_input"),
        ({"input": b"x" * 3_000_000}, "payload_too_large"),
    ],
)
async def test_a_start_with_what_only_the_engine_sets_is_refused(
    changes: Any, code: str, sqlite: Worlds
) -> None:
    async with sqlite.serve() as world:
        await world.client.start("r1")
        bad = {"run": ROW._replace(**changes), "on_conflict": "return"}
        assert (await world.client.reply("start", bad)).problem.code == code
        good = {"run": ROW, "on_conflict": "return"}
        [first, second] = await world.client.call("start_many", items=[bad, good])
        assert first["problem"]["code"] == code
        assert second["result"][:2] == [ROW.uid, True]


@pytest.mark.parametrize(
    ("run", "on_conflict"),
    [(ROW._replace(id="r1"), "replace"), (ROW._replace(name=BULK_WORKFLOW), "return")],
)
async def test_a_start_that_ends_other_runs_needs_the_scope_to_control_runs(
    run: NewRun, on_conflict: str, sqlite: Worlds
) -> None:
    starter = await a_key(sqlite.url, "run:start")
    controller = await a_key(sqlite.url, "run:start", "run:control", "payload:read")
    arguments = {"run": run, "on_conflict": on_conflict}
    async with sqlite.serve() as world:
        await client_of(world, starter).start("r1")
        reply = await client_of(world, starter).reply("start", arguments)
        assert reply.problem.code == "forbidden"
        assert "run:control" in reply.problem.message
        await client_of(world, controller).call("start", **arguments)


async def test_a_signal_cannot_keep_a_run_from_being_cancelled(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        await worker.claim()
        payload = {"tag": "json", "data": "bnVsbA=="}
        signal = {"run": "r1", "name": "go", "payload": payload, "message": "cancel"}
        assert (await world.client.reply("signal", signal)).problem.code == "bad_input"
        assert await world.client.call("cancel", run="r1") == "accepted"
        position = {uid_of("r1"): messages.InboxPosition(seen=0)}
        loaded = await worker.ask(load=messages.LoadRequest(inboxes=position))
        assert [each.kind for each in loaded.load.runs[0].inbox] == ["cancel"]


async def test_a_child_cannot_be_a_bulk_action(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        child = messages.NewRun(
            uid=uid_of("child"), id="child", name=BULK_WORKFLOW, input=b"json:[]", args_hash="h",
            kind="workflow", queue="default", parent=run.uid, parent_identity="bulk#1",
            root=run.uid, attempt=1,
        )  # fmt: skip
        commit = messages.Commit(no=1, run=run.uid, fence=run.fence, starts=[child])
        assert await worker.commit(commit, succeeded(2, run)) == {1: "write_refused", 2: "done"}
