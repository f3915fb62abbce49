"""The key under which an effect is sent: the same in every attempt, so that a sink can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterable


def effect_key(root: str, identity: str) -> str:
    """Return the key of an effect in a workflow; `root` is that of the retry chain."""
    return digest("effect", root, identity)


def consumer_effect_key(handler: str, events: Iterable[str]) -> str:
    """Return the key of a consumer's effect: the same for the same events, however often prepared.

    `handler` is its full name, with namespace and pipeline; `events` are the ids reserved.
    """
    return digest("consumer", handler, *sorted(events))
