"""Failpoints armed inside a test.

    with armed("commit.after", raising(ConnectionResetError())):
        await store.commit(batch)

For a process of its own, set `ONWARD_FAILPOINTS`: see `onward.telemetry.failpoints`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.telemetry.failpoints import arm, disarm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.telemetry.failpoints import Action


@dataclass
class Armed:
    """How often an armed failpoint has acted so far."""

    name: str
    fired: int = 0


@contextmanager
def armed(
    name: str, action: Action, hit: int | None = 1, *, must_fire: bool = True
) -> Iterator[Armed]:
    """Arm a failpoint while the block runs: when the code reaches the failpoint, call `action`.

    If the block ends before the code reaches the failpoint, the test fails, because it has
    tested nothing.

    Args:
        name: A name from `FAILPOINTS`.
        action: Called at the failpoint, in the thread that reaches it; it may raise.
        hit: Which pass through the failpoint triggers the action, counted from 1; `None` means
            every pass.
        must_fire: Whether the code must reach the failpoint.

    Raises:
        BadInput: there is no such failpoint, or it is already armed.
        AssertionError: `action` was never called.
    """
    point = Armed(name)

    def counted() -> None:
        point.fired += 1
        action()

    arm(name, counted, hit=hit)
    try:
        yield point
    finally:
        disarm(name)
    if must_fire and not point.fired:
        raise AssertionError(f"failpoint {name!r} was armed with hit={hit} but never fired")


def raising(error: BaseException) -> Action:
    """Return an action that raises `error`."""

    def action() -> None:
        raise error

    return action
