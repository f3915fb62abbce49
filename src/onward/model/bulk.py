"""What crosses the layers of a bulk action: one run to act on, how, and why it was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Target(NamedTuple):
    """A run to act on.

    `new_uid` is the uid of the run that a retry or a fork makes. It is chosen before the action, so
    that an action that is repeated after a crash recognises its own result.
    """

    uid: str
    id: str
    new_uid: str


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """How a bulk action treats each run; each action reads some of them."""

    force: bool = False
    resend: bool = False
    step: str | None = None
    grace: int | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that a bulk action left unchanged.

    Attributes:
        id: The id of the run.
        uid: Its uid.
        error: The code of the error, such as `undone`.
        message: The error message.
        option: The option that overrides the refusal, such as `force`.
    """

    id: str
    uid: str
    error: str
    message: str
    option: str | None = None
