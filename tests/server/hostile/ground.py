"""A database with runs of others in every state, and the comparison of all rows that are theirs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import asyncpg

from onward.codec import Payload
from onward.core.effect.keys import effect_key
from onward.core.instant import SECOND
from onward.engine.access.administration import Administration
from onward.model.pipelines import NewEvent, PipelineSpec, TopicSpec
from onward.model.runs import NewRun
from onward.model.schedules import ScheduleSpec
from onward.store import open_store
from onward.store.statements import tables
from onward.wire.messages import messages
from tests.server.hostile.values import Pool
from tests.server.raw import RawClient, RawStream, stepped, succeeded, uid_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from onward.store.invariants import Violation

    Row = dict[str, Any]
    Contents = dict[str, list[Row]]

HOSTILE: Final = "hostile"
HONEST: Final = "honest"
VICTIM: Final = "victim"
_CACHED: Final = "cached-by-others"

OF_RUNS: Final = {
    "onward_run": "uid", "onward_run_data": "uid", "onward_record": "run", "onward_effect": "run",
    "onward_inbox": "run", "onward_cause": "subject", "onward_tombstone": "uid",
}  # fmt: skip
"""The tables whose rows belong to a run, with the column that names it."""

SHARED: Final = frozenset(
    {
        "onward_cache", "onward_delivery", "onward_event", "onward_flow", "onward_handler",
        "onward_input", "onward_input_count", "onward_pipeline", "onward_schedule", "onward_slot",
        "onward_subscription", "onward_topic",
    }
)  # fmt: skip
"""What code declares or publishes for its whole namespace. A worker may add rows of its own there;
rows that others had must stay as they are."""

IGNORED: Final = frozenset({"onward_meta", "onward_clock_step"})
RENEWED: Final = {
    "onward_lease": {"renewed_at", "steady_since"},
    "onward_api_key": {"last_used_at"},
    "onward_flow": {"next_at"},
}
"""Columns that honest workers and servers write all the time."""


class Keys(NamedTuple):
    """The texts of the keys of everybody, and the id of the hostile one."""

    hostile: str
    honest: str
    victim: str
    operator: str
    bank: str
    hostile_id: str


def metadata_of(key: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of calls with a key."""
    return (("authorization", f"Bearer {key}"),)


async def create_keys(url: str) -> Keys:
    """Create a key for each queue, one for an operator, and one of another namespace."""
    async with open_store(url) as store:
        administration = Administration(store)
        await administration.create_namespace("bank")

        async def key(namespace: str, *scopes: str) -> Any:
            made = await administration.create_key(namespace, scopes[0][-8:], scopes, by="test")
            return made.key

        poll = "worker:poll:"
        operator = (
            "run:start", "run:read", "payload:read", "signal:send", "run:control",
            "schedule:write", "queue:write", "pipeline:write", "event:publish",
        )  # fmt: skip
        hostile = await key("default", poll + HOSTILE)
        return Keys(
            hostile.reveal(),
            (await key("default", poll + HONEST)).reveal(),
            (await key("default", poll + VICTIM)).reveal(),
            (await key("default", *operator)).reveal(),
            (await key("bank", f"{poll}*", "run:start")).reveal(),
            hostile.id,
        )


class Ground:
    """The victims: their workers stay connected, so what they have stays theirs."""

    def __init__(self, channel: Any, keys: Keys) -> None:
        self._channel = channel
        self._keys = keys
        self.client = RawClient(channel)
        self.client.metadata = metadata_of(keys.operator)
        self.workers: list[RawStream] = []
        self.runs: dict[str, Any] = {}

    async def prepare(self, attacks: int) -> Pool:
        """Make the victims and the runs of the attacker, and return what the attacker knows."""
        victim = await self._worker("victim-1", self._keys.victim, VICTIM)
        for number in range(6):
            await self._start(self.client, f"victim-{number}", VICTIM)
        held = await victim.claim(limit=6)
        await self._shape(victim, held)
        bank = RawClient(self._channel)
        bank.metadata = metadata_of(self._keys.bank)
        teller = await self._worker("teller-1", self._keys.bank, "default")
        await self._start(bank, "account-1", "default")
        [account] = await teller.claim()
        await self._declare()
        for number in range(attacks):
            await self._start(self.client, f"attack-{number}", HOSTILE, "attack")
        self.runs = {run.uid: run for run in (*held, account)}
        return Pool(
            worker="hostile-1",
            others=[(uid, run.fence) for uid, run in self.runs.items()],
            keys=[effect_key(run.uid, "charge#1") for run in held] + [_CACHED],
            workers=["hostile-1", "victim-1", "teller-1", "nobody"],
            queues=[HOSTILE, HOSTILE, VICTIM, HONEST],
            names=["attack", "greet"],
        )

    async def _worker(self, worker: str, key: str, queue: str) -> RawStream:
        stream = RawStream(self._channel, worker, metadata=metadata_of(key), queues=[queue])
        # The lease lasts for as long as an attack does: nobody renews it.
        answer = await stream.join(lease=3600 * SECOND)
        assert answer.HasField("hello"), answer
        self.workers.append(stream)
        return stream

    async def _start(self, client: RawClient, run: str, queue: str, name: str = "greet") -> None:
        row = NewRun(uid_of(run), run, name, b"json:[]", "h", queue=queue)
        await client.call("start", run=row, on_conflict="return")

    async def _shape(self, victim: RawStream, held: list[Any]) -> None:
        """Bring runs into different states; two stay with the worker."""
        running, _, waiting, paused, ended, failed = held
        effect = messages.EffectWrite(
            key=effect_key(running.uid, "charge#1"),
            run=running.uid,
            identity="charge#1",
            name="charge",
            title="Charge",
            args=b"json:[1]",
            args_hash="h",
            state="planned",
            version=1,
            returns="any",
        )
        cached = messages.CacheWrite(
            key=_CACHED, step="price", version="1", payload=b"json:7", length=3600 * SECOND
        )
        moved = [
            (waiting, messages.Move(state="waiting", due_in=3600 * SECOND, seq=1)),
            (paused, messages.Move(state="paused", reason="approval", seq=1)),
            (failed, messages.Move(state="failed", reason="logic", error=b"json:1")),
        ]
        commits = [
            messages.Commit(
                no=1, run=running.uid, fence=running.fence, effects=[effect], cached=[cached]
            ),
            stepped(2, running),
            succeeded(3, ended),
        ]
        for number, (run, move) in enumerate(moved, 4):
            commits.append(messages.Commit(no=number, run=run.uid, fence=run.fence, move=move))
        fates = await victim.commit(*commits)
        assert set(fates.values()) == {"done"}, fates

    async def _declare(self) -> None:
        call, payload = self.client.call, Payload("json", b"1")
        await call("signal", run="victim-0", name="approval", payload=payload, message="signal m1")
        yearly = ScheduleSpec(
            "yearly", "greet", b"json:[]", "h", "{}", "0 0 1 1 *", None, "UTC", "skip", "skip", 1, 0
        )
        await call("schedules.create", spec=yearly)
        spec = PipelineSpec("shop", False, VICTIM, (TopicSpec("shop.orders"),), ())
        await call("pipelines.declare", spec=spec)
        event = NewEvent("", "shop.orders", "order-1", b"json:1")
        await call("pipelines.publish", events=[event])

    async def close(self) -> None:
        """Disconnect the workers of the victims."""
        for worker in self.workers:
            await worker.__aexit__()


# --- rows -----------------------------------------------------------------------------------------


async def contents(url: str) -> Contents:
    """Return every row of every table."""
    names = sorted(tables() - IGNORED)
    if url.startswith("postgresql:"):
        connection = await asyncpg.connect(url)
        try:
            return {
                table: [dict(row) for row in await connection.fetch(_all_of(f"onward.{table}"))]
                for table in names
            }
        finally:
            await connection.close()
    with closing(sqlite3.connect(url)) as file:
        file.row_factory = sqlite3.Row
        return {table: [dict(row) for row in file.execute(_all_of(table))] for table in names}


def _all_of(table: str) -> str:
    return f"SELECT * FROM {table}"


def foreign_writes(before: Contents, after: Contents, hostile_id: str) -> list[str]:
    """Return each row that has changed though it belongs to nothing of the hostile worker."""
    own = hostile_runs(after["onward_run"])
    workers = {row["worker"] for row in after["onward_worker"] if row["key_id"] == hostile_id}
    # A lease is taken before its worker is registered: it may be there alone for a moment.
    rows = (*after["onward_worker"], *after["onward_lease"])
    workers |= {
        row["worker"] for row in rows if row["worker"].startswith((f"{HOSTILE}-", f"{HONEST}-"))
    }
    found: list[str] = []
    for table, found_rows in after.items():
        given = _others(table, before[table], own, workers)
        left = _others(table, found_rows, own, workers)
        found += [f"{table}: gone or changed: {row}" for row in given - left]
        if table not in SHARED:
            found += [f"{table}: new or changed: {row}" for row in left - given]
    return found


def foreign_violations(violations: Iterable[Violation], contents: Contents) -> list[str]:
    """Return the invariants that are broken for anything but the runs of the hostile worker.

    It may ruin its own runs: no one checks whether a history fits the code that wrote it.
    """
    own = hostile_runs(contents["onward_run"])
    own |= {row["key"] for row in contents["onward_effect"] if row["run"] in own}
    return [str(each) for each in violations if not own.issuperset(each.subjects)]


def hostile_runs(runs: Iterable[Row]) -> set[str]:
    """Return the runs of the hostile queue, those that follow them, and all their descendants.

    Runs that honest workers use to measure are left out as well.
    """
    rows = list(runs)
    own = {row["uid"] for row in rows if row["queue"] in (HOSTILE, HONEST)}
    own |= {row["uid"] for row in rows if row["id"].startswith((HOSTILE, "attack"))}
    while True:
        more = {row["uid"] for row in rows if row["parent"] in own or row["follows"] in own} - own
        if not more:
            return own
        own |= more


def _others(
    table: str, rows: Iterable[Row], own: Collection[str], workers: Collection[str]
) -> set[str]:
    column = OF_RUNS.get(table)
    changing = RENEWED.get(table, set())
    return {
        repr([(name, value) for name, value in row.items() if name not in changing])
        for row in rows
        if not (column is not None and row[column] in own)
        and not (table in ("onward_worker", "onward_lease") and row["worker"] in workers)
    }
