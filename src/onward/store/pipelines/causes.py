"""Inputs, and what they cause: the events that are published because of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from onward.core.delivery import SkipReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onward.store.database import Tx

MAX_CAUSES = 1_000
"""An event has at most so many causes: of a run with more, the inputs that are known longest."""


class NewInputRow(NamedTuple):
    """An input that may be new."""

    uid: str
    pipeline: str
    source: str
    type: str
    external: str
    title: str
    run: str | None


class CauseRow(NamedTuple):
    """An input, and an event or a run that it has caused."""

    kind: str
    target: str
    input: str


async def register(tx: Tx, inputs: Sequence[NewInputRow]) -> dict[str, str]:
    """Register inputs, and return the uid by which each of them is known."""
    if not inputs:
        return {}
    kinds: defaultdict[tuple[str, str, str], defaultdict[str, list[NewInputRow]]]
    kinds = defaultdict(lambda: defaultdict(list))
    for each in inputs:
        kinds[each.pipeline, each.source, each.type][each.external].append(each)
    first = [same[0] for alike in kinds.values() for same in alike.values()]
    new = {row[0] for row in await tx.fetch_rows("write_inputs", first)}
    uids: dict[str, str] = {}
    for (pipeline, source, type_), alike in sorted(kinds.items()):
        kind = {"pipeline": pipeline, "source": source, "type": type_}
        rows = await tx.fetch("inputs_by_external", externals=tx.array(sorted(alike)), **kind)
        for external, uid in rows:
            uids |= dict.fromkeys((each.uid for each in alike[external]), uid)
        count = sum(same[0].uid in new for same in alike.values())
        if count:
            await tx.fetch("count_inputs", count=count, **kind)
    return uids


async def inherited_causes(tx: Tx, runs: Iterable[str | None]) -> dict[str | None, list[str]]:
    """Return the inputs of the events that these runs have reserved, for those that have any."""
    named = sorted(run for run in runs if run is not None)
    if not named:
        return {}
    found: defaultdict[str | None, list[str]] = defaultdict(list)
    for run, uid in await tx.fetch("causes_of_runs", runs=tx.array(named)):
        if len(found[run]) < MAX_CAUSES:
            found[run].append(uid)
    return dict(found)


async def link(tx: Tx, causes: Mapping[str, list[str]], deliveries: Mapping[str, int]) -> set[str]:
    """Write the causes of new events, and count the events at their inputs.

    Args:
        tx: The transaction.
        causes: The inputs of each event.
        deliveries: How many consumers each event has.

    Returns:
        The events that were skipped because all of their inputs are.
    """
    if not causes:
        return set()
    await tx.fetch_rows(
        "write_causes",
        [CauseRow("event", event, uid) for event, uids in causes.items() for uid in uids],
    )
    named = sorted({uid for uids in causes.values() for uid in uids})
    rows = await tx.fetch("lock_inputs", uids=tx.array(named))
    skipped = {uid for uid, skipped_at in rows if skipped_at is not None}
    dropped = {event for event, uids in causes.items() if skipped.issuperset(uids)}
    if dropped:
        await _skip(tx, dropped)
    opened: Counter[str] = Counter()
    caused: Counter[str] = Counter()
    for event, uids in causes.items():
        caused.update(uids)
        if event not in dropped:
            opened.update(dict.fromkeys(uids, deliveries[event]))
    alike: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for uid in named:
        alike[opened[uid], caused[uid]].append(uid)
    for (count, number), uids in sorted(alike.items()):
        await tx.fetch("raise_inputs", open=count, events=number, uids=tx.array(uids))
    return dropped


async def _skip(tx: Tx, dropped: Iterable[str]) -> None:
    """Skip new events, all of whose inputs an operator has skipped."""
    rows = await tx.fetch(
        "skip_new_deliveries",
        events=tx.array(sorted(dropped)),
        reason=SkipReason.OPERATOR,
    )
    for (topic, handler), count in sorted(Counter((row[0], row[1]) for row in rows).items()):
        await tx.fetch("count_skipped", topic=topic, handler=handler, count=count)
