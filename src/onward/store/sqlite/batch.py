"""The hot path on SQLite: batches written inside the writer's transaction.

The transaction has the file to itself, so each part first reads what is there, lets the rules of
the core decide, and then writes what they let pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.inbox import MessageKind
from onward.core.lease import Fate, Row, Write, fate
from onward.core.run import RunState
from onward.errors import LeaseLost
from onward.model.commits import NOTHING_ATTACHED
from onward.model.effects import EffectRow
from onward.model.messages import NewMessage, SentMessage
from onward.model.runs import Started, found_run
from onward.store.database import Written
from onward.store.pipelines.writing import attach, examine
from onward.store.writing.repeats import recorded_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.commits import Attachments, Commit
    from onward.model.effects import EffectWrite
    from onward.model.runs import NewRun, RunOwner, Start
    from onward.store.sqlite.transaction import SqliteTx
    from onward.store.writing.batch import Batch


async def write(tx: SqliteTx, batch: Batch) -> Written:
    """Write a batch of owners' commits and return the fate of each."""
    workers = batch.workers
    owners = tx.array(set(workers.values()))
    leased = {worker for (worker,) in tx.rows("leased_workers", workers=owners)}
    seen, queues = _look(tx, batch)
    fates: dict[str, Fate] = {}
    accepted: list[Commit] = []
    known: set[str] = set()
    done = Fate.DONE  # looked up once: see `core.replay.machine`
    for run, commit in batch.runs.items():
        worker = workers[run]
        if run not in seen and worker in leased:
            fates[run] = done
            accepted.append(commit)
            continue
        row = seen.get(run)
        wanted = Write(commit.fence, commit.move is not None, commit.seen, worker)
        answer = fate(row, wanted, leased=worker in leased)
        # One that is not running was moved by an earlier try of this commit: nothing is left to do.
        if answer is done and row is not None and row.state is RunState.RUNNING:
            pipelines = await examine(tx, [commit])
            if pipelines.refused or _refuses(tx, commit.attached, run):
                answer = Fate.BUSY
            else:
                accepted.append(commit)
                known |= pipelines.repeated
        fates[run] = answer
    is_first = _record(tx, accepted) and len(accepted) == len(fates)
    repeated = () if is_first else [c for c in batch.runs.values() if fates[c.run] is done]
    earlier = await recorded_times(tx, repeated)
    woken = _write(tx, accepted)
    await attach(tx, [commit for commit in accepted if commit.run not in known])
    released = {queues[c.run] for c in accepted if c.move is not None and c.move.state == "ready"}
    return Written(fates, tx.now, frozenset(woken | released), earlier)


def _look(tx: SqliteTx, batch: Batch) -> tuple[dict[str, Row | None], dict[str, str]]:
    """Return the runs that are not as their commits expect, or about which more must be known.

    Returns:
        Their rows, None for a run that is not there, and the queues of those that may be released.
    """
    watched = [run for run, commit in batch.runs.items() if _is_watched(commit)]
    seen: dict[str, Row | None] = dict.fromkeys(watched)
    queues: dict[str, str] = {}
    owners = {
        run: f"{commit.fence} {batch.workers[run]}"
        for run, commit in batch.runs.items()
        if run not in seen
    }
    if owners:
        for uid, state, *rest in tx.rows("unexpected_runs", owners=tx.mapping(owners)):
            seen[uid] = None if state is None else Row(RunState(state), *rest)
    if watched:
        for uid, state, *rest, queue in tx.rows("runs_seen", uids=tx.array(watched)):
            seen[uid] = Row(RunState(state), *rest)
            queues[uid] = queue
    return seen, queues


def _is_watched(commit: Commit) -> bool:
    """Return whether more must be known of a run than that it is running under its fence."""
    if commit.is_plain:
        return False
    return commit.may_be_refused or (commit.move is not None and commit.move.state == "ready")


def _record(tx: SqliteTx, accepted: list[Commit]) -> bool:
    """Write records, and return whether all are new: the others were written by an earlier try."""
    records = [record for commit in accepted for record in commit.latest_records()]
    changed, _ = tx.write_rows("add_record", records)
    return changed == len(records)


def _write(tx: SqliteTx, accepted: list[Commit]) -> set[str]:
    """Write what was accepted and return the queues of the runs that were sent something."""
    moving = [(commit.run, commit.move) for commit in accepted if commit.move is not None]
    tx.write_rows("move_run", [(run, *move[:8], *move[-2:]) for run, move in moving])
    tx.write_rows(
        "keep_end",
        [
            (run, move.result, move.error, move.failed_call, move.progress, b"")
            for run, move in moving
            if move.has_data
        ],
    )
    _insert_runs(tx, [run for commit in accepted for run in commit.starts])
    for commit in accepted:
        _attach(tx, commit.attached, commit.run)
    alike: dict[tuple[str, str], list[NewMessage]] = {}
    for commit in accepted:
        for message in commit.messages:
            alike.setdefault((message.target, message.wakes), []).append(message)
    sent = [each for (uid, _), messages in alike.items() for each in _deliver(tx, uid, messages)]
    return {each.queue for each in sent if each.fate == "delivered"}


def _refuses(tx: SqliteTx, attached: Attachments, run: str) -> bool:
    """Return whether an attachment of a commit is not as the commit expects."""
    if attached is NOTHING_ATTACHED:
        return False
    for effect in attached.effects:
        found = tx.rows("ledger_row", key=effect.key)
        if not _fits(EffectRow._make(found[0]) if found else None, effect, run):
            return True
    return False


def _fits(row: EffectRow | None, effect: EffectWrite, run: str) -> bool:
    """Return whether a row of the ledger is as a write expects it, or as that write left it."""
    if row is None:
        return effect.version == 1
    if row.version == effect.version - 1:
        return True
    # What an operator wrote last is never ours, even if it says the same.
    is_judged = row.decided_at is not None and row.decided_at == row.updated_at
    return not is_judged and (row.version, row.state, row.run, row.approved) == (
        effect.version, effect.state, run, effect.approved,
    )  # fmt: skip


def _attach(tx: SqliteTx, attached: Attachments, run: str) -> None:
    if attached is NOTHING_ATTACHED:
        return
    tx.write_rows("write_effect", attached.effects)
    tx.write_rows("cache_result", [(*entry, run) for entry in attached.cached])


async def start(tx: SqliteTx, starts: Sequence[Start]) -> list[Started | LeaseLost]:
    """Start runs that do not exist yet; an owner that lost its run starts nothing."""
    lost = {owner for _, owner in starts if owner is not None and not _has(tx, owner)}
    made = _insert_runs(tx, [run for run, owner in starts if owner not in lost])
    return [
        LeaseLost(owner.run) if owner in lost and owner is not None else _started(tx, run, made)
        for run, owner in starts
    ]


def _has(tx: SqliteTx, owner: RunOwner) -> bool:
    """Return whether a worker still has a run."""
    leased = bool(tx.rows("lease_here", worker=owner.worker))
    row = None
    for _, state, *rest, _ in tx.rows("runs_seen", uids=tx.array([owner.run])):
        row = Row(RunState(state), *rest)
    return fate(row, Write(owner.fence, worker=owner.worker), leased=leased) is Fate.DONE


def _started(tx: SqliteTx, run: NewRun, made: dict[str, str]) -> Started:
    state = made.get(run.uid)
    if state is not None:
        return Started(run.uid, True, run.name, run.args_hash, state)  # noqa: FBT003
    [found] = tx.rows("started_run", uid=run.uid, id=run.id)
    return found_run(run.uid, *found)


def _insert_runs(tx: SqliteTx, runs: Sequence[NewRun]) -> dict[str, str]:
    """Insert runs that do not exist yet, and return the states of those that were inserted."""
    _, made = tx.write_rows("insert_run", runs)
    states = {uid: state for state, uid in made}
    tx.write_rows("insert_run_data", [_data_of(run) for run in runs if run.uid in states])
    return states


def _data_of(run: NewRun) -> tuple[object, ...]:
    return (
        *(run.uid, run.input, run.args_hash, run.trace, run.retry, run.attributes),
        *(run.delay_in, run.due),
    )


async def send(tx: SqliteTx, messages: Sequence[NewMessage]) -> list[SentMessage]:
    """Put messages into the inboxes of runs."""
    return [_send(tx, message) for message in messages]


async def send_in_turn(
    tx: SqliteTx, messages: Sequence[NewMessage]
) -> tuple[list[SentMessage], list[SentMessage]]:
    """Put messages into the inboxes of runs, after what the outbox holds for the same runs.

    Returns:
        The answers to the messages, and those to what was in the outbox.
    """
    answers: list[SentMessage] = []
    swept: list[SentMessage] = []
    for message in messages:
        for _, run_id, *_ in tx.rows("target_seen", target=message.target, by_uid=message.by_uid):
            behind = tx.rows("outbox_of_run", target=run_id, after=0, limit=-1)
            swept += _sweep(tx, behind)
        answers.append(_send(tx, message))
    return answers, swept


async def sweep(tx: SqliteTx, limit: int) -> list[SentMessage]:
    """Move messages from the outbox into inboxes, oldest first."""
    return _sweep(tx, tx.rows("oldest_outbox", limit=limit))


def _sweep(tx: SqliteTx, rows: list[Any]) -> list[SentMessage]:
    if not rows:
        return []
    sent = [_send(tx, NewMessage(*message)) for _, *message in rows]
    tx.rows("drop_outbox_rows", seqs=tx.array(row[0] for row in rows))
    return sent


def _send(tx: SqliteTx, message: NewMessage) -> SentMessage:
    """Put a message into the inbox of the run that it is for, or of the one that follows it.

    A message to a run that is over and followed goes to the newest run of its id. A signal is
    delivered once to a chain. Only the end of a child is for its very parent.
    """
    found = tx.rows("target_seen", target=message.target, by_uid=message.by_uid)
    if not found:
        return SentMessage(None, None, "", "absent")
    meant, run_id, newest, _ = found[0]
    uid = meant
    if not newest and message.kind != MessageKind.CHILD:
        uid = tx.rows("target_seen", target=run_id, by_uid=0)[0][0]
    # The newest may be of another chain, if it was started in the place of the one that is meant.
    for run in dict.fromkeys((meant, uid)) if message.kind == MessageKind.SIGNAL else ():
        there = _seen(tx, run, [message], in_chain=True)
        if there:
            return SentMessage(uid, there[message.message], "", "duplicate")
    [sent] = _deliver(tx, uid, [message])
    return sent


def _deliver(tx: SqliteTx, uid: str, messages: Sequence[NewMessage]) -> list[SentMessage]:
    """Put messages that wake alike into the inbox of a run, unless they are there or it is over."""
    there = _seen(tx, uid, messages)
    new = {each.message: each for each in messages if each.message not in there}
    raised = tx.rows("raise_inbox", run=uid, wakes=messages[0].wakes, count=len(new)) if new else []
    last, queue, chain = raised[0] if raised else (0, "", "")
    seqs = dict(zip(new, range(last - len(new) + 1, last + 1), strict=True)) if raised else {}
    rows = [(uid, seq, chain, *new[message][1:5]) for message, seq in seqs.items()]
    tx.write_rows("add_message", rows)
    sent: list[SentMessage] = []
    for each in messages:
        if each.message in there:
            sent.append(SentMessage(uid, there[each.message], "", "duplicate"))
        elif raised:
            sent.append(SentMessage(uid, seqs[each.message], queue, "delivered"))
        else:
            sent.append(SentMessage(uid, None, "", "ended"))
    return sent


def _seen(
    tx: SqliteTx, run: str, messages: Sequence[NewMessage], *, in_chain: bool = False
) -> dict[str, int]:
    """Return the numbers of the messages that are there already."""
    ids = tx.array(each.message for each in messages)
    return dict(tx.rows("messages_seen", run=run, messages=ids, in_chain=in_chain))
