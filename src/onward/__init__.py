"""Durable execution for Python: ordinary functions that survive crashes, restarts and deploys.

Names are loaded when they are first used, so that importing Onward costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.codec import StepFailed, register_error
    from onward.core.retry import Retry
    from onward.errors import Fatal, Retryable
    from onward.sdk.app import App
    from onward.sdk.run import Run
    from onward.sdk.step import Step, step
    from onward.sdk.waits import Signal, sleep, wait_signal
    from onward.sdk.workflow import Workflow, workflow

__all__ = [
    "App",
    "Fatal",
    "Retry",
    "Retryable",
    "Run",
    "Signal",
    "Step",
    "StepFailed",
    "Workflow",
    "register_error",
    "sleep",
    "step",
    "wait_signal",
    "workflow",
]

_HOMES = {
    "onward.codec": ("StepFailed", "register_error"),
    "onward.core.retry": ("Retry",),
    "onward.errors": ("Fatal", "Retryable"),
    "onward.sdk.app": ("App",),
    "onward.sdk.run": ("Run",),
    "onward.sdk.step": ("Step", "step"),
    "onward.sdk.waits": ("Signal", "sleep", "wait_signal"),
    "onward.sdk.workflow": ("Workflow", "workflow"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'onward' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
