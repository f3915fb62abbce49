"""How one run is to follow another, and whether it did."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.instant import Duration
from onward.model.records import NewRecord
from onward.model.runs import Move


class Following(NamedTuple):
    """A run that is to follow the run `old`.

    It begins with the calls that were handed over before the position `cut`: all for None, none for
    0. `edited` stands at the position `cut`, in the place of what the old run has there. With
    another `id` it is a fork beside the old run, which is left as it is. `beside` are calls from
    the cut on whose outcomes are kept aside, for when they are asked for. `input`, `args_hash` and
    `attributes` are the old run's unless they are given. `unheard` are the numbers of signals that
    its records have taken, but that its code never got: a continuation gets them. A fork
    is refused that would send effects again, but for the call `named`, unless it `resends`.

    The owner of a running run gives `worker`, `fence` and `end`, its last move; if that says
    what it has `seen`, nothing may have arrived since. All that it wrote before must be written.
    """

    old: str
    new_uid: str
    link: str
    cut: int | None = None
    beside: tuple[str, ...] = ()
    id: str | None = None
    input: bytes | None = None
    args_hash: str | None = None
    delay_in: Duration = 0
    attributes: bytes | None = None
    edited: NewRecord | None = None
    resends: bool = False
    named: str = ""
    unheard: tuple[int, ...] = ()
    worker: str | None = None
    fence: int | None = None
    end: Move | None = None


class Continuation(NamedTuple):
    """What a run is given that continues another: arguments, attributes and unread signals.

    `unheard` are the numbers of signals that the old run has taken, but that its code never saw.
    """

    input: bytes
    args_hash: str
    attributes: bytes | None
    unheard: tuple[int, ...] = ()


class Followed(NamedTuple):
    """The answer: the run that has the id now, its state, and whether this made it.

    `made`, also when it was made before · `taken`: another run has the id · `refused`, and `why` ·
    `resends`: it would send the effects again that `why` names · `undone`: a retry would build on
    what the effects that `why` names may have undone · `forked`: a retry would send
    the effects again that a fork of a child has sent, and that `why` names ·
    `lost`: the owner is not the owner any more · `late`: too much time has passed for a retry ·
    `busy`: it has not seen all messages · `absent`.
    """

    uid: str | None
    fate: str
    state: str = ""
    why: str = ""
