"""Runs of handlers that have work: any worker that offers a handler starts its next run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.handler import DueHandler, HandlerKind, chosen
from onward.store.pipelines.publishing import lock_handlers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from onward.core.instant import Instant
    from onward.store.database import Tx
    from onward.store.store import Store

MAX_CANDIDATES = 500
"""How many handlers, or keys of handlers, with work are looked at for one claim."""


_BEGINNING = ("", "")


class LaunchOffer(NamedTuple):
    """Whose runs a worker takes, from which queues, and after which handler and key to look."""

    handlers: tuple[str, ...]
    queues: tuple[str, ...]
    after: tuple[str, str] = _BEGINNING


class _Work(NamedTuple):
    """A handler, or one key of it, that has work, as its row stands."""

    handler: str
    key: str
    kind: str
    lane: str
    queue: str
    published: int
    next_id: str | None
    next_slot: Instant | None
    is_woken: int
    oldest: Instant | None
    is_asleep: bool
    """Whether only its wake time gives it work."""

    @property
    def candidate(self) -> DueHandler:
        return DueHandler(
            self.handler,
            self.key,
            HandlerKind(self.kind),
            self.lane,
            self.oldest,
            bool(self.is_woken),
        )


class Launcher:
    """Starts runs of handlers for one worker.

    If there are many keys with work, each turn looks at the next ones, so that none has to wait for
    all that sort before it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = _BEGINNING

    async def launch(
        self, handlers: Collection[str], queues: Collection[str], limit: int
    ) -> list[str]:
        """Start runs of those of these handlers that have work, and return their queues.

        The caller claims next: it announces the runs that it does not take itself.
        """
        if not handlers or limit < 1:
            return []
        offer = LaunchOffer(tuple(sorted(handlers)), tuple(sorted(queues)), self._after)
        found = await self._store.read(lambda tx: find_work(tx, offer))
        if not found and self._after != _BEGINNING:
            offer = offer._replace(after=_BEGINNING)
            found = await self._store.read(lambda tx: find_work(tx, offer))
        pending = [work for work in found if not work.is_asleep]
        is_more = len(pending) >= MAX_CANDIDATES
        self._after = (pending[-1].handler, pending[-1].key) if is_more else _BEGINNING
        if not found:
            return []
        lanes = {work.lane for work in found}
        uids = [self._store.new_uid() for _ in range(min(limit, len(lanes)))]
        return await self._store.write(lambda tx: start_runs(tx, offer, found, uids))


async def launch(
    store: Store, handlers: Collection[str], queues: Collection[str], limit: int
) -> int:
    """Start runs of those of these handlers that have work; return how many."""
    return len(await Launcher(store).launch(handlers, queues, limit))


async def find_work(tx: Tx, offer: LaunchOffer) -> list[_Work]:
    """Return the handlers, and keys of them, that a run may be started for."""
    given: dict[str, Any] = {
        "handlers": tx.array(offer.handlers),
        "queues": tx.array(offer.queues),
        "limit": MAX_CANDIDATES,
    }
    after = {"after_handler": offer.after[0], "after_key": offer.after[1]}
    rows = [(*row, False) for row in await tx.fetch("handlers_with_work", **after, **given)]
    rows += [(*row, True) for row in await tx.fetch("woken_handlers", **given)]
    return [_Work(*row) for row in rows]


async def start_runs(
    tx: Tx, offer: LaunchOffer, found: Iterable[_Work], uids: Sequence[str]
) -> list[str]:
    """Start runs of what was found under these uids, and return their queues."""
    candidates = [work.candidate for work in found]
    idle = [each for each in candidates if not each.has_work]
    picked = chosen(candidates)[: len(uids)]
    await lock_handlers(tx, (), [(each.handler, each.key) for each in (*idle, *picked)])
    # Some may have been taken up, blocked or paused before they were locked.
    rows = {(work.handler, work.key): work for work in await find_work(tx, offer)}
    for each in idle:
        work = rows.get((each.handler, each.key))
        if work is not None and not work.candidate.has_work:
            given = {"handler": work.handler, "key": work.key}
            await tx.fetch("forget_work", published=work.published, **given)
    made: list[str] = []
    for each, uid in zip(picked, uids, strict=False):
        work = rows.get((each.handler, each.key))
        if work is not None and work.candidate.has_work and await _start(tx, work, uid):
            made.append(work.queue)
    return made


async def _start(tx: Tx, work: _Work, uid: str) -> bool:
    """Start a run; return False if another one of its lane is open."""
    run = {
        "uid": uid,
        "kind": work.kind,
        "name": f"{work.kind} {work.handler}",
        "queue": work.queue,
        "handler": work.handler,
        "key": work.key,
        "lane": work.lane,
        "slot": work.next_slot,
        # The id of the run of a slot is made of the name of the schedule and the time.
        "schedule": None if work.next_id is None else work.next_id.rpartition("@")[0],
    }
    # If it is the id of the slot that is taken, the run has one of its own.
    for name in dict.fromkeys((work.next_id or uid, uid)):
        if await tx.fetch("launch_run", id=name, **run):
            break
    else:
        return False
    nothing = dict.fromkeys(("trace", "retry", "attributes", "due"))
    await tx.fetch("insert_run_data", uid=uid, input=b"", args_hash="", delay_in=0, **nothing)
    given = {"handler": work.handler, "key": work.key, "published": work.published}
    await tx.fetch("take_work", **given)
    return True
