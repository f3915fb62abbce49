"""Bulk actions: which runs each is for, and which options override a refusal."""

from __future__ import annotations

from enum import StrEnum


class BulkAction(StrEnum):
    """What is done to every run that matches a filter."""

    RETRY = "retry"
    FORK = "fork"
    DISCARD = "discard"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"


class Targets(StrEnum):
    """Which runs an action is for, unless a state is given."""

    DEAD = "dead"
    OPEN = "open"
    PAUSED = "paused"


TARGETS = {
    BulkAction.RETRY: Targets.DEAD,
    BulkAction.FORK: Targets.DEAD,
    BulkAction.DISCARD: Targets.DEAD,
    BulkAction.CANCEL: Targets.OPEN,
    BulkAction.PAUSE: Targets.OPEN,
    BulkAction.RESUME: Targets.PAUSED,
}

_OVERRIDES = {
    (BulkAction.RETRY, "undone"): "force",
    (BulkAction.RETRY, "would_resend"): "force",
    (BulkAction.FORK, "would_resend"): "resend",
}


def override(action: BulkAction, code: str) -> str | None:
    """Return the option with which an action is not refused for this error, if there is one."""
    return _OVERRIDES.get((action, code))
