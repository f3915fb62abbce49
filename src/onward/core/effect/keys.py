"""The key under which an effect is sent: the same in every attempt, so that a sink can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterable


def effect_key(root: str, identity: str) -> str:
    """Return the key of an effect in a workflow; `root` is that of the retry chain."""
    return digest("effect", root, identity)


def consumer_origin(handler: str, key: str, events: Iterable[tuple[str, int]]) -> str:
    """Return the root of the key of a consumer's effect: the same for the same events.

    So an effect keeps its key, however often its events are prepared. `events` are the uids that a
    run has reserved, each with how often an operator has had it handled again: then the effect is
    another one.
    """
    return digest(
        "consumer", handler, key, *(f"{uid} {replays}" for uid, replays in sorted(events))
    )
