"""What this process knows by name: its workflows, and which of several it has used last."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from onward.runtime.definition import WorkflowDefinition
    from onward.runtime.registry import Registry

_used: dict[tuple[str, str], weakref.ref[Callable[..., Any]]] = {}
_open: weakref.WeakSet[Registry] = weakref.WeakSet()
"""Of the workers of this process."""


def all_known(known: Mapping[str, list[WorkflowDefinition]]) -> list[WorkflowDefinition]:
    """Return all workflows that somebody holds; of several with one name, the last in any case.

    A function that was defined in another one (in a test, say) is gone with it. Nobody can start
    it any more, so it must not stand in the way of the next one of its name.
    """
    several = [same for same in known.values() if len({each.fn for each in same}) > 1]
    before = [[weakref.ref(each) for each in same[:-1]] for same in several]
    for same in several:
        del same[:-1]
    if several:
        gc.collect()
    for same, refs in zip(several, before, strict=True):
        same[:0] = [each for ref in refs if (each := ref()) is not None]
    return [each for same in known.values() for each in same]


def serve(registry: Registry) -> None:
    """Let a worker take what this process uses, from now on and as it did last."""
    for (kind, name), ref in _used.items():
        fn = ref()
        if fn is not None:
            registry.suggest(kind, name, fn)
    registry.tell = used
    _open.add(registry)


def started(workflow: WorkflowDefinition, own: Collection[Registry]) -> None:
    """Take note that a workflow is started: it is what its name means here.

    Args:
        workflow: What is started.
        own: Of the workers of the same app, which would take its run.

    Raises:
        BadInput: there, the name means another one.
    """
    for registry in own:
        registry.choose("workflow", workflow.name, workflow.fn)
    used("workflow", workflow.name, workflow.fn)


def used(kind: str, name: str, fn: Callable[..., Any]) -> None:
    """Take note of what this process means by a name; its other workers may mean another."""
    if (before := _used.get((kind, name))) is not None and before() is fn:
        return
    _used[kind, name] = weakref.ref(fn)
    for registry in list(_open):
        registry.suggest(kind, name, fn)
