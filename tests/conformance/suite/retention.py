"""Retention: what is deleted, what stays, and what a deleted run leaves behind."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.chain import Link
from onward.core.ids import uid7
from onward.core.instant import DAY, HOUR
from onward.core.retention import Retention, read_retention
from onward.core.run import RunState
from onward.engine.children import start_child
from onward.engine.starting import start
from onward.errors import Conflict, NotFound
from onward.model.commits import Attachments
from onward.model.runs import RunOwner
from onward.store import Following
from onward.store.invariants import check
from onward.store.runs.leftovers import count_leftovers, delete_leftovers
from onward.store.runs.retention import TABLES, drop_expired, prune
from tests.conformance.suite.chains import CONTINUED, FAILED
from tests.conformance.suite.checking import furnish_slots
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_child,
    a_child_end,
    a_message,
    a_record,
    a_run,
    an_effect,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.model.runs import ClaimedRun, NewRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

SHORT = Retention(succeeded=DAY, failed=10 * DAY, cancelled=DAY, timed_out=DAY, ids=5 * DAY)


async def pruned(store: Store, keep: Retention = SHORT, *, dry_run: bool = False) -> dict[str, int]:
    """Delete all that may be deleted, and check the invariants after every part of it."""
    total: dict[str, int] = {}
    position = None
    while True:
        rows, position = await prune(store, keep, position, dry_run=dry_run)
        total = {table: total.get(table, 0) + rows.get(table, 0) for table in {*total, *rows}}
        assert [str(violation) for violation in await check(store)] == []
        if position is None:
            return {table: count for table, count in total.items() if count}


async def ids(store: Store) -> list[str]:
    return sorted(run.id for run in await store.list_runs(limit=1000))


def timed(store: Store, run: NewRun) -> NewRun:
    """Return a run with a uid that says when it was made, as real ones have."""
    return run._replace(uid=store.new_uid())


async def owning(worker: Worker, *names: str) -> list[ClaimedRun]:
    return await worker.given(*(timed(worker.store, a_run(name)) for name in names))


async def test_a_run_is_deleted_with_all_its_rows_when_its_time_is_over(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.store.send(a_message("a", "m1"))
    await worker.commit(run, a_record(run, 1), move=SUCCEEDED._replace(seq=1))
    await worker.store.start(timed(worker.store, a_run("open")))
    world.clock.advance(DAY - 1)
    assert await pruned(worker.store) == {}

    world.clock.advance(1)
    counted = {
        "onward_run": 1, "onward_run_data": 1, "onward_record": 1, "onward_inbox": 1,
    }  # fmt: skip
    assert await pruned(worker.store, dry_run=True) == counted
    assert await ids(worker.store) == ["a", "open"], "only counted"
    assert await pruned(worker.store) == counted
    assert await ids(worker.store) == ["open"]


async def test_each_state_has_its_own_time_and_none_keeps_it(world: World) -> None:
    worker = await world.worker()
    [good, bad] = await owning(worker, "good", "bad")
    await worker.commit(good, move=SUCCEEDED)
    await worker.commit(bad, move=FAILED._replace(seq=0))
    world.clock.advance(DAY)
    await pruned(worker.store)
    assert await ids(worker.store) == ["bad"]
    world.clock.advance(1000 * DAY)
    await pruned(worker.store, read_retention({"failed": None}) or SHORT)
    assert await ids(worker.store) == ["bad"]
    await pruned(worker.store)
    assert await ids(worker.store) == []


async def test_an_unsettled_effect_keeps_its_run(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, attached=Attachments(effects=(an_effect(run, 1, "in_flight"),)))
    await worker.store.stop("a", state="cancelled", reason="forced")
    world.clock.advance(100 * DAY)
    assert await pruned(worker.store) == {}

    await world.sql("UPDATE onward_effect SET state = 'applied'")
    assert (await pruned(worker.store))["onward_effect"] == 1


async def test_a_key_that_its_receiver_still_knows_keeps_its_run(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, attached=Attachments(effects=(an_effect(run, 1, "in_flight"),)))
    applied = an_effect(run, 2, "applied")
    await worker.commit(run, move=SUCCEEDED, attached=Attachments(effects=(applied,)))
    known_until = await worker.store.now() + 3 * DAY
    await world.sql(f"UPDATE onward_effect SET known_until = {known_until}")
    world.clock.advance(3 * DAY - 1)
    assert await pruned(worker.store) == {}
    world.clock.advance(1)
    assert (await pruned(worker.store))["onward_effect"] == 1


async def test_children_go_with_their_parent_and_not_before(world: World) -> None:
    worker = await world.worker()
    [top] = await owning(worker, "top")
    child = timed(worker.store, a_child(top, "child"))
    await worker.commit(top, starts=(child._replace(cancel_with_parent=1),))
    [below] = await worker.claim()
    await worker.commit(below, move=FAILED._replace(seq=0), messages=(a_child_end(below),))
    world.clock.advance(20 * DAY)
    assert await pruned(worker.store) == {}, "the parent may be retried, and starts it again"

    await worker.commit(top, move=SUCCEEDED)
    world.clock.advance(DAY)
    # The child failed, but it is part of a run that succeeded.
    assert (await pruned(worker.store))["onward_run"] == 2


async def test_a_child_that_is_open_keeps_its_parent(world: World) -> None:
    worker = await world.worker()
    [top] = await owning(worker, "top")
    await worker.commit(top, starts=(timed(worker.store, a_child(top, "child")),))
    await worker.commit(top, move=SUCCEEDED)
    world.clock.advance(20 * DAY)
    assert await pruned(worker.store) == {}


async def test_a_retried_run_stays_while_its_retry_does_and_goes_with_it(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, a_record(run, 1), move=FAILED._replace(seq=1))
    retry = Following(run.uid, worker.store.new_uid(), "retry_of", None)
    assert (await worker.store.follow(retry)).fate == "made"
    world.clock.advance(20 * DAY)
    assert await pruned(worker.store) == {}
    [again] = await worker.claim()
    await worker.commit(again, move=SUCCEEDED._replace(seq=1))
    world.clock.advance(DAY)
    # A run that was retried has not failed: the retry's end counts.
    assert (await pruned(worker.store))["onward_run"] == 2


async def test_a_fork_under_another_id_keeps_what_it_was_forked_from(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, a_record(run, 1), move=SUCCEEDED._replace(seq=1))
    fork = Following(run.uid, worker.store.new_uid(), "forked_from", None, id="b")
    assert (await worker.store.follow(fork)).fate == "made"
    world.clock.advance(20 * DAY)
    assert await pruned(worker.store) == {}
    [forked] = await worker.claim()
    await worker.commit(forked, move=SUCCEEDED._replace(seq=1))
    world.clock.advance(DAY)
    assert (await pruned(worker.store))["onward_run"] == 2


async def test_what_an_open_run_was_continued_from_is_deleted(world: World) -> None:
    """Otherwise a run that continues without end would fill the database."""
    worker = await world.worker()
    [run] = await owning(worker, "a")
    for _ in range(3):
        await worker.store.follow(
            Following(
                run.uid,
                worker.store.new_uid(),
                Link.CONTINUE,
                0,
                worker=worker.name,
                fence=run.fence,
                end=CONTINUED,
            )
        )
        [run] = await worker.claim()
    world.clock.advance(DAY)
    assert (await pruned(worker.store))["onward_run"] == 3
    assert (await worker.store.newest("a")).uid == run.uid
    repeated = await worker.store.start(timed(worker.store, a_run("a")))
    assert (repeated.uid, repeated.start_hash) == (run.uid, "hash-of-1"), "it is the same start"


async def test_a_marked_run_is_not_retried_or_forked(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, a_record(run, 1), move=FAILED._replace(seq=1))
    world.clock.advance(10 * DAY)
    await prune(worker.store, SHORT, (RunState.FAILED, ""))  # it marks, and would delete next
    for link, new_id in (("retry_of", None), ("forked_from", None), ("forked_from", "b")):
        wish = Following(run.uid, worker.store.new_uid(), link, None, id=new_id)
        answer = await worker.store.follow(wish)
        assert (answer.fate, "being deleted" in answer.why) == ("refused", True)
    assert (await pruned(worker.store))["onward_run"] == 1


async def test_a_retry_that_comes_between_the_look_and_the_mark_keeps_the_run(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, move=FAILED._replace(seq=0))
    world.clock.advance(10 * DAY)
    real_write = worker.store.write
    retry = Following(run.uid, worker.store.new_uid(), "retry_of", None)

    async def write(work: Any) -> Any:
        worker.store.write = real_write  # type: ignore[method-assign]  # once
        await worker.store.follow(retry)
        return await real_write(work)

    worker.store.write = write  # type: ignore[method-assign]  # that is the moment between
    await prune(worker.store, SHORT, (RunState.FAILED, ""))
    assert await pruned(worker.store) == {}
    assert len(await worker.store.list_runs()) == 2


async def test_the_id_of_a_deleted_run_is_recognised_until_its_window_is_over(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await pruned(store)

    again = await start(store, timed(store, a_run("a")))
    assert (again.uid, again.created, again.is_deleted) == (run.uid, False, True)
    for wanted, on_conflict in (
        (a_run("a"), "reject"),
        (a_run("a")._replace(args_hash="other"), "return"),
    ):
        with pytest.raises(Conflict):
            await start(store, timed(store, wanted), on_conflict)
    assert await drop_expired(store) == 0

    world.clock.advance(4 * DAY)
    anew = await start(store, timed(store, a_run("a")))
    assert (anew.created, anew.is_deleted) == (True, False)
    assert await drop_expired(store) == 1


EXPIRED = {
    "onward_cache": "INSERT INTO onward_cache (namespace, key, step, run, payload, created_at,"
    " expires_at) SELECT namespace, 'k', 'step', uid, input, 1, 2 FROM onward_run_data",
    "onward_worker": "INSERT INTO onward_worker (namespace, worker, host, pid, queues, names,"
    " started_at, left_at) VALUES ('default', 'gone', 'h', 1, '', '', 1, 2)",
    "onward_tombstone": "INSERT INTO onward_tombstone (namespace, uid, id, name, start_hash, state,"
    " finished_at, marked_at, until, is_deleted)"
    " VALUES ('default', '0', 'old', 'n', '', 'failed', 1, 1, 2, 1)",
    "onward_flow": "INSERT INTO onward_flow (namespace, kind, scope, name, forget_at, updated_at)"
    " VALUES ('default', 'key', 'q', 'idle', 2, 1)",
    "onward_slot": "INSERT INTO onward_slot (namespace, schedule, at, until, slots, disposition,"
    " timing, decided_at) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE"
    " n < 105) SELECT 'default', 'hourly', -n, -n, 1, 'missed', '', 1 FROM n",
}


async def test_rows_that_have_expired_are_counted_and_deleted(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a"))
    await furnish_slots(worker.store)
    assert not any((await worker.store.snapshot(count_leftovers)).values())
    for statement in EXPIRED.values():
        await world.sql(statement)

    counted = await worker.store.snapshot(count_leftovers)

    assert counted == dict.fromkeys(EXPIRED, 1) | {"onward_slot": 6}
    assert await delete_leftovers(worker.store) == counted
    assert not any((await worker.store.snapshot(count_leftovers)).values())
    assert await delete_leftovers(worker.store) == {}


async def test_the_id_of_a_deleted_run_can_be_replaced(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await pruned(store)
    anew = await start(store, timed(store, a_run("a")), "replace")
    assert anew.created
    row = await store.newest("a")
    assert (row.uid, row.follows) == (anew.uid, None)


async def test_a_run_that_is_being_deleted_can_be_replaced(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await prune(store, SHORT, None)  # it is marked
    anew = await start(store, timed(store, a_run("a")), "replace")
    assert anew.created
    assert (await pruned(store))["onward_run"] == 1
    assert (await store.newest("a")).uid == anew.uid


async def test_an_id_that_nobody_chose_is_not_remembered(world: World) -> None:
    worker = await world.worker()
    uid = worker.store.new_uid()
    [run] = await worker.given(a_run("x")._replace(uid=uid, id=uid))
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await pruned(worker.store)
    assert await world.sql("SELECT uid FROM onward_tombstone") == []


async def test_a_caller_finds_the_id_of_a_deleted_run_taken(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await pruned(store)
    wanted = timed(store, a_run("a"))
    async with world.caller(commit=True) as connection:
        started = await store.within(connection).start(wanted)
    assert (started.created, started.is_deleted) == (False, True)


async def test_a_child_whose_id_belongs_to_a_deleted_run_is_refused(world: World) -> None:
    """Its result is not there any more, and the parent would wait for it without end."""
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await pruned(worker.store)
    [parent] = await owning(worker, "parent")
    child = timed(worker.store, a_child(parent, "a"))
    owner = RunOwner(worker.name, parent.uid, parent.fence)
    with pytest.raises(Conflict, match="was deleted"):
        await start_child(worker.store, owner, child)


async def test_a_read_of_a_deleted_run_says_when_it_was_deleted(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    await pruned(worker.store)
    for read, name in ((worker.store.newest, "a"), (worker.store.end, run.uid)):
        with pytest.raises(NotFound, match="was deleted by retention at"):
            await read(name)
    assert await worker.store.gone([run.uid]) == [run.uid]


async def test_a_run_that_is_not_there_yet_was_not_deleted(world: World) -> None:
    store = await world.store()
    young, old = store.new_uid(), uid7(await store.now() - 2 * HOUR, 1)
    assert await store.gone([young, old]) == [old]


async def test_many_runs_are_deleted_in_small_transactions(world: World) -> None:
    worker = await world.worker()
    runs = [timed(worker.store, a_run(f"r{n}")) for n in range(60)]
    for run in runs:
        await worker.store.start(run)
    await world.sql("UPDATE onward_run SET state = 'succeeded', finished_at = created_at")
    world.clock.advance(DAY)
    first = await prune(worker.store, SHORT, None)
    second = await prune(worker.store, SHORT, first.position)
    assert (first.rows, second.rows["onward_run"]) == ({}, 50)
    assert await pruned(worker.store) == {"onward_run": 10, "onward_run_data": 10}


async def test_a_clock_that_was_set_forward_makes_no_run_older(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    now = await worker.store.now()
    await world.sql(
        "INSERT INTO onward_clock_step (namespace, seq, began_by, step) "
        f"VALUES ('default', 1, {now}, {2 * DAY})"
    )
    world.clock.advance(2 * DAY)
    assert await pruned(worker.store) == {}
    world.clock.advance(DAY)
    assert (await pruned(worker.store))["onward_run"] == 1


async def test_retention_stays_in_its_namespace(world: World) -> None:
    worker = await world.worker()
    [run] = await owning(worker, "a")
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(DAY)
    assert await pruned(await world.store("other")) == {}
    assert (await pruned(worker.store))["onward_run"] == 1


async def test_every_table_with_rows_of_runs_is_named(world: World) -> None:
    """A table with a column `run`, or the uid of a run, that retention does not know would grow."""
    assert set(TABLES) == {
        "onward_record", "onward_inbox", "onward_effect", "onward_run_data", "onward_run",
        "onward_cause",
    }  # fmt: skip
    assert list(TABLES)[-1] == "onward_run"
    await world.store()


# --- compared with the rule, over random histories ---------------------------------------------


@each("0123456789")
async def test_what_is_deleted_is_what_the_rule_says(world: World, case: str) -> None:
    rng = random.Random(int(case))
    store = await world.store()
    now = await store.now()
    world.clock.advance(40 * DAY)
    await store.start(a_run("a"))
    rows = _random_runs(rng, now)
    for row in rows.values():
        await _insert(world, row)
        if rng.random() < 0.15:
            row["effect"] = rng.choice(["applied", "indeterminate", "failed", "in_flight"])
            await _insert_effect(world, row)
    expected = _expected(rows, await store.now())
    counted = (await pruned(store, dry_run=True)).get("onward_run", 0)
    deleted = (await pruned(store)).get("onward_run", 0)
    left = {run.uid for run in await store.list_runs(limit=1000)}
    assert left - {"uid-a"} == set(rows) - expected
    assert counted == deleted == len(expected)


def _random_runs(rng: random.Random, start_at: int) -> dict[str, dict[str, Any]]:
    """Return rows of runs that could have come about: trees, retries, forks, continuations."""
    rows: dict[str, dict[str, Any]] = {}
    for n in range(60):
        at = start_at + n * DAY // 2
        uid = uid7(at, n)
        state = rng.choice(["succeeded"] * 4 + ["failed", "cancelled", "timed_out", "waiting"])
        row: dict[str, Any] = {
            "uid": uid, "id": f"r{n}", "state": state, "newest": 1, "parent": None, "bound": 0,
            "follows": None, "link": None, "at": at, "effect": None,
        }  # fmt: skip
        others = [each for each in rows.values() if each["state"] != "waiting"]
        ended = [each for each in others if each["newest"] == 1]
        kind = rng.random()
        if kind < 0.25 and rows:
            row |= {"parent": rng.choice(list(rows)), "bound": rng.choice([0, 1])}
        elif kind < 0.5 and ended:
            old = rng.choice(ended)
            link = rng.choice(["retry_of", "forked_from", "continued_from", "replaces"])
            row |= {"follows": old["uid"], "link": link, "id": old["id"]}
            row |= {"parent": old["parent"], "bound": old["bound"]}
            old["newest"] = 0
        elif kind < 0.6 and others:
            row |= {"follows": rng.choice(others)["uid"], "link": "forked_from"}
        rows[uid] = row
    return rows


async def _insert(world: World, row: Mapping[str, Any]) -> None:
    finished = "NULL" if row["state"] == "waiting" else row["at"]
    text = {key: "NULL" if value is None else f"'{value}'" for key, value in row.items()}
    origin = "'x'" if row["link"] == "retry_of" else "NULL"
    await world.sql(
        "INSERT INTO onward_run (namespace, uid, id, newest, kind, name, queue, state, due, parent,"
        " cancel_with_parent, follows, link, origin, created_at, finished_at, updated_at) VALUES"
        f" ('default', {text['uid']}, {text['id']}, {row['newest']}, 'workflow', 'greet',"
        f" 'default', {text['state']}, {row['at']}, {text['parent']}, {row['bound']},"
        f" {text['follows']}, {text['link']}, {origin}, {row['at']}, {finished}, {row['at']})"
    )
    await world.sql(
        "INSERT INTO onward_run_data (namespace, uid, input, args_hash)"
        f" SELECT 'default', {text['uid']}, input, 'h' FROM onward_run_data WHERE uid = 'uid-a'"
    )


async def _insert_effect(world: World, row: Mapping[str, Any]) -> None:
    await world.sql(
        "INSERT INTO onward_effect (namespace, key, run, identity, name, args, args_hash, state,"
        " version, attempt, created_at, updated_at) SELECT"
        f" 'default', 'k{row['uid']}', '{row['uid']}', 'e#1', 'e', input, 'h', '{row['effect']}',"
        f" 1, 1, {row['at']}, {row['at']} FROM onward_run_data WHERE uid = 'uid-a'"
    )


def _expected(rows: Mapping[str, Mapping[str, Any]], now: int) -> set[str]:
    """Return the runs that may go, as a reader of the guide would work it out."""
    times = {"succeeded": 1, "failed": 10, "cancelled": 1, "timed_out": 1}

    def together(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return one["parent"] == other["uid"] or (
            one["follows"] == other["uid"] and one["link"] in ("retry_of", "forked_from")
        )

    def is_part(row: Mapping[str, Any]) -> bool:
        return bool(row["bound"]) or any(
            each["follows"] == row["uid"]
            and each["id"] == row["id"]
            and each["link"] in ("retry_of", "forked_from")
            for each in rows.values()
        )

    def may_go(row: Mapping[str, Any]) -> bool:
        return (
            row["state"] in times
            and row["effect"] not in ("indeterminate", "in_flight")
            and (is_part(row) or row["at"] + times[row["state"]] * DAY <= now)
        )

    def family(uid: str) -> set[str]:
        found, seen = {uid}, set[str]()
        while found - seen:
            one = rows[(found - seen).pop()]
            seen.add(one["uid"])
            found |= {
                other["uid"]
                for other in rows.values()
                if together(one, other) or together(other, one)
            }
        return found

    free = {uid for uid in rows if all(may_go(rows[each]) for each in family(uid))}
    while True:
        held = {
            uid
            for uid in free
            for each in family(uid)
            if rows[each]["link"] in ("continued_from", "replaces")
            and rows[each]["follows"] not in free
        }
        if not held:
            return free
        free -= held
