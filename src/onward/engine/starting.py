"""Starting runs: idempotent by id; the same id with something else is a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.codec import check_id
from onward.engine.payloads import pack
from onward.errors import BadInput, Conflict
from onward.store.rows import NewRun

if TYPE_CHECKING:
    from onward.codec import Arguments
    from onward.core.instant import Duration, Instant
    from onward.store.rows import Started
    from onward.store.store import Store

PRIORITY_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a run is started."""

    id: str | None = None
    queue: str = "default"
    priority: int = 0
    tags: tuple[str, ...] = ()
    delay: Duration = 0
    at: Instant | None = None
    on_conflict: str = "return"


async def start(store: Store, name: str, arguments: Arguments, options: StartOptions) -> Started:
    """Start a run of the workflow `name`, or find the one that has the id.

    Raises:
        Conflict: the id belongs to a run of another workflow or with other arguments, or to any
            run if that is to be rejected.
    """
    run = new_run(store, name, arguments, options)
    started = await store.start(run)
    if started.created:
        return started
    if (started.name, started.args_hash) != (run.name, run.args_hash):
        what = "arguments" if started.name == run.name else f"workflow ({started.name})"
        raise Conflict(run.id, f"it was started with other {what}")
    if options.on_conflict == "reject":
        raise Conflict(run.id, f"it is {started.state}")
    return started


def new_run(store: Store, name: str, arguments: Arguments, options: StartOptions) -> NewRun:
    """Return the row of a run that is to be started."""
    uid = store.new_uid()
    run_id = uid if options.id is None else check_id(options.id, "the run id")
    if not -PRIORITY_MOST <= options.priority <= PRIORITY_MOST:
        raise BadInput(
            f"priority {options.priority}",
            f"is not between -{PRIORITY_MOST:,} and {PRIORITY_MOST:,}",
            "Use small numbers; 0 is the default",
        )
    return NewRun(
        uid,
        run_id,
        name,
        pack(arguments.payload()),
        arguments.fingerprint(),
        queue=check_id(options.queue, "the queue"),
        priority=options.priority,
        tags=" ".join(check_tag(tag) for tag in options.tags),
        delay_in=options.delay,
        due=options.at,
    )


def check_tag(tag: Any) -> str:
    """Return a tag, which is an id without spaces.

    Raises:
        BadInput: it is none.
    """
    checked = check_id(tag, "a tag")
    if " " in checked:
        raise BadInput(f"tag {checked!r}", "has a space in it", "Use a hyphen")
    return checked
