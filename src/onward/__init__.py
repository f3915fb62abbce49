"""Durable execution for Python: ordinary functions that survive crashes, restarts and deploys.

Names are loaded when they are first used, so that importing Onward costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.codec import StepFailed, register_error
    from onward.core.retry import Retry
    from onward.errors import Fatal, NotApplied, Retryable
    from onward.runtime.body.effects import Applied, Unknown
    from onward.runtime.pipelines.contexts import MutateContext as MutateContext
    from onward.runtime.pipelines.contexts import NextContext as NextContext
    from onward.runtime.pipelines.contexts import PrepareContext as PrepareContext
    from onward.runtime.pipelines.contexts import ProducerContext as ProducerContext
    from onward.runtime.pipelines.values import Event as Event
    from onward.runtime.pipelines.values import Input as Input
    from onward.runtime.pipelines.values import Nothing as Nothing
    from onward.runtime.pipelines.values import Outcome as Outcome
    from onward.runtime.pipelines.values import Prepared as Prepared
    from onward.runtime.pipelines.values import Skipped as Skipped
    from onward.runtime.pipelines.values import Topic as Topic
    from onward.sdk.app import App
    from onward.sdk.current import current
    from onward.sdk.effect import Effect, effect, effect_key
    from onward.sdk.inside import (
        as_completed,
        continue_as_new,
        now,
        patched,
        random,
        start,
        uuid,
    )
    from onward.sdk.pipelines.consumer import Consumer as Consumer
    from onward.sdk.pipelines.pipeline import Pipeline as Pipeline
    from onward.sdk.pipelines.publish import publish as publish
    from onward.sdk.run import Run, RunInfo
    from onward.sdk.schedule import Schedule as Schedule
    from onward.sdk.step import Step, step
    from onward.sdk.waits import Signal, sleep, sleep_until, wait_signal
    from onward.sdk.workflow import Workflow, workflow

    __version__: str

__all__ = [
    "App",
    "Applied",
    "Effect",
    "Fatal",
    "NotApplied",
    "Retry",
    "Retryable",
    "Run",
    "RunInfo",
    "Signal",
    "Step",
    "StepFailed",
    "Unknown",
    "Workflow",
    "as_completed",
    "continue_as_new",
    "current",
    "effect",
    "effect_key",
    "now",
    "patched",
    "random",
    "register_error",
    "sleep",
    "sleep_until",
    "start",
    "step",
    "uuid",
    "wait_signal",
    "workflow",
]

_HOMES = {
    "onward.codec": ("StepFailed", "register_error"),
    "onward.core.retry": ("Retry",),
    "onward.errors": ("Fatal", "NotApplied", "Retryable"),
    "onward.runtime.body.effects": ("Applied", "Unknown"),
    "onward.sdk.app": ("App",),
    "onward.sdk.current": ("current",),
    "onward.sdk.effect": ("Effect", "effect", "effect_key"),
    "onward.sdk.inside": (
        *("as_completed", "continue_as_new", "now", "patched", "random", "start", "uuid"),
    ),
    "onward.runtime.pipelines.contexts": (
        *("MutateContext", "NextContext", "PrepareContext", "ProducerContext"),
    ),
    "onward.runtime.pipelines.values": (
        *("Event", "Input", "Nothing", "Outcome", "Prepared", "Skipped", "Topic"),
    ),
    "onward.sdk.pipelines.consumer": ("Consumer",),
    "onward.sdk.pipelines.pipeline": ("Pipeline",),
    "onward.sdk.pipelines.publish": ("publish",),
    "onward.sdk.run": ("Run", "RunInfo"),
    "onward.sdk.schedule": ("Schedule",),
    "onward.sdk.step": ("Step", "step"),
    "onward.sdk.waits": ("Signal", "sleep", "sleep_until", "wait_signal"),
    "onward.sdk.workflow": ("Workflow", "workflow"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("onward")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'onward' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
