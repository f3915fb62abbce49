"""Named points in the code where a test can make the process die, stop, wait or fail.

`failpoint(name)` does nothing unless that name is armed: the environment variable
`ONWARD_FAILPOINTS` for a whole process, or `onward.testing.faults.armed` inside a test. Every
name stands in one table, so that a sweep over all of them misses none and a typo is an error.

    ONWARD_FAILPOINTS="commit.before=kill@2;claim.after=raise"

Each entry is `name=action`, then `:argument` if the action takes one, then `@n` to act on the
n-th pass (the first by default) or `@*` on every pass. Actions:

    kill         SIGKILL to this process
    stop         SIGSTOP to this process
    exit[:code]  leave at once, without cleaning up; status 1 by default
    raise        raise `InjectedFault`
    pause:file   make the file, then wait until it is removed
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from onward.errors import BadInput, InvariantBroken

VARIABLE = "ONWARD_FAILPOINTS"

FAILPOINTS: dict[str, str] = {
    "commit.before": "a batch of writes has been gathered, but not sent to the database",
    "commit.after": "a batch of writes is committed, but its runs do not know it yet",
    "claim.before": "a worker is about to claim runs",
    "claim.after": "runs have been claimed, but none has been started",
    "renew.before": "a worker is about to renew its lease",
    "renew.after": "the lease has been renewed, but the worker has not noted it",
    "send.before": "a message to a run's inbox is about to be written",
    "send.after": "a message to a run's inbox is committed, but its sender has no answer yet",
    "start.before": "a new run is about to be written",
    "start.after": "a new run is committed, but its caller has no answer yet",
    "step.before": "a step is about to run",
    "step.after": "the code of a step has returned, but its outcome has not been submitted",
    "effect.before": "an effect is about to be sent, and is not in the ledger yet",
    "effect.intended": "the ledger says that an effect is in flight, but nothing has been sent",
    "effect.replied": "the handler of an effect has returned, but its outcome is not in the ledger",
    "effect.settled": "the outcome of an effect is in the ledger, but its run does not know it yet",
    "deliver.before": "an outcome is recorded, but has not been delivered to the body",
    "deliver.after": "an outcome has been delivered to the body, which has not continued yet",
    "park.before": "a run has nothing to do, but its wait has not been submitted",
    "park.after": "a run is parked, but its worker has not dropped it",
    "finish.before": "a body has returned, but the end of the run has not been submitted",
    "finish.after": "the end of a run is committed, but its worker has not dropped the run",
    "release.before": "a worker that is leaving is about to release a run",
    "release.after": "a run is released, but the leaving worker has no answer yet",
    "migrate.before": "a migration is about to be applied",
    "migrate.after": "a migration is applied and committed",
}
"""All failpoints, each with the situation in which the code reaches it."""

Action = Callable[[], None]

_PAUSE_POLL_SECONDS = 0.002


class InjectedFault(Exception):
    """An armed failpoint failed on purpose."""


# Holds every declared name, so that one look-up finds both the action and an undeclared name.
_actions: dict[str, Action | None] = dict.fromkeys(FAILPOINTS)


def failpoint(name: str) -> None:
    """Pass a named point: a no-op unless the name is armed."""
    try:
        action = _actions[name]
    except KeyError:
        raise InvariantBroken(f"failpoint {name!r} was reached but is not declared") from None
    if action is not None:
        action()


def arm(name: str, action: Action, *, hit: int | None = 1) -> None:
    """Let `action` happen when the failpoint is passed.

    `hit` says which pass acts, counted from 1 since arming; `None` means every pass.

    Raises:
        BadInput: no such failpoint, it is already armed, or `hit` is below 1.
    """
    if name not in _actions:
        known = ", ".join(sorted(_actions))
        raise BadInput(f"failpoint {name!r}", "is not declared", f"Use one of: {known}.")
    if _actions[name] is not None:
        raise BadInput(f"failpoint {name!r}", "is already armed", "Disarm it first.")
    if hit is not None and hit < 1:
        raise BadInput(f"hit {hit}", "is below 1", "Use 1 for the first pass.")
    _actions[name] = action if hit is None else _at(hit, action)


def disarm(name: str) -> None:
    """Make a failpoint a no-op again."""
    if name in _actions:
        _actions[name] = None


def _at(hit: int, action: Action) -> Action:
    passes = itertools.count(1)  # next() is atomic, so threads are counted right

    def counted() -> None:
        if next(passes) == hit:
            action()

    return counted


# --- the environment ------------------------------------------------------------------------------


def arm_from(text: str) -> None:
    """Arm every entry of `text`, written as described at the top of this module.

    Raises:
        BadInput: an entry that cannot be read, or names what does not exist.
    """
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, rest = entry.partition("=")
        body, at, hit = rest.rpartition("@")
        if not at:
            body, hit = rest, "1"
        if not equals or not (hit == "*" or hit.isdecimal()):
            raise BadInput(f"{VARIABLE} entry {entry!r}", "is malformed", "Write name=action@hit.")
        arm(name, _action(body), hit=None if hit == "*" else int(hit))


def _action(text: str) -> Action:
    word, _, argument = text.partition(":")
    match word, argument:
        case "kill", "":
            return lambda: os.kill(os.getpid(), signal.SIGKILL)
        case "stop", "":
            return lambda: os.kill(os.getpid(), signal.SIGSTOP)
        case "exit", code if not code or code.isdecimal():
            return lambda: os._exit(int(code or "1"))
        case "raise", "":
            return _raise
        case "pause", file if file:
            return lambda: _pause(Path(file))
    advice = "Use kill, stop, exit, exit:code, raise or pause:file."
    raise BadInput(f"{VARIABLE} action {text!r}", "is not known", advice)


def _raise() -> None:
    raise InjectedFault("an armed failpoint raised this")


def _pause(file: Path) -> None:
    file.touch()
    while file.exists():
        time.sleep(_PAUSE_POLL_SECONDS)


arm_from(os.environ.get(VARIABLE, ""))
