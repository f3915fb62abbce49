"""The replay machine: history in, calls in, and out what each call means and what comes next.

It serves a run that is replayed and one that is live alike: a result is written first, then told
with `recorded`, then handed over by `next`. So the order in which a body sees results is the order
of history, both times. Nothing here depends on the order of a set or of hashes.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from onward.core.replay.answers import (
    Answer,
    Ask,
    Clash,
    Deliver,
    Difference,
    Diverged,
    Ended,
    Fresh,
    Frontier,
    HeldBack,
    Joined,
    Passed,
    Patched,
    Read,
    Resume,
    Turn,
    Wait,
)
from onward.core.replay.call import Standing, TrackedCall, is_grave, laid_out, unread_grave
from onward.core.replay.identity import Naming, branch_of, keyed, patch_identity
from onward.core.replay.record import Record, RecordKind
from onward.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable

# Looked up once: on Python 3.11 a member of an enum takes thirty times as long as a name.
_UNDER_WAY, _READ, _DELIVERED = Standing.UNDER_WAY, Standing.READ, Standing.DELIVERED
_PATCH = RecordKind.PATCH

_WAIT = Wait()
_NOTHING_LEFT = Ended(())
# Its owner wrote these for the run itself; they are delivered though no code asked for them.
_OWN = frozenset({RecordKind.CANCEL, RecordKind.CLOCK})
_UNASKED = _OWN | {RecordKind.PATCH}


class Policy(StrEnum):
    """How much the code may differ from its history."""

    ADDITIVE = "additive"
    STRICT = "strict"


class Replay:
    """One run's history, and how far its body has read it."""

    __slots__ = (
        "_calls",
        "_held",
        "_last",
        "_late",
        "_naming",
        "_order",
        "_patches",
        "_policy",
        "_unread",
        "length",
        "live",
        "read",
    )

    def __init__(self, history: Iterable[Record] = (), *, policy: Policy = Policy.ADDITIVE) -> None:
        self._policy = policy
        self._naming = Naming()
        self._calls, closed = laid_out(history) if history else ({}, [])
        self._order = deque(closed)
        self._late: list[tuple[int, str]] = []
        self._held: list[TrackedCall] = []
        self._patches: dict[str, bool] = {}
        self._unread = unread_grave(self._calls) if self._calls else {}
        self._last = closed[-1].position if closed else 0
        self.length = self._last
        """How many positions history has, including those taken and not yet written."""
        self.read = 0
        """The position up to which the body was handed what history has."""
        # Even if nothing is closed: the body must have asked for what is open before it does more.
        self.live = not self._calls
        """Whether the frontier is behind: calls that are not in history are done at once."""

    def standing(self, identity: str) -> Standing:
        """Return how a call stands. One without a key is forgotten when it is delivered."""
        call = self._calls.get(identity)
        return Standing.UNKNOWN if call is None else call.standing

    def record_of(self, identity: str) -> Record | None:
        """Return the last record of a call. One without a key is forgotten when it is delivered."""
        call = self._calls.get(identity)
        return None if call is None else call.record

    # --- the body calls -------------------------------------------------------------------------

    def branch(self, parent: str, seed: str | None = None) -> str:
        """Return the path of a new task of the branch `parent`."""
        return self._naming.branch(parent, seed)

    def ask(self, ask: Ask) -> Answer:
        """Return what a durable call means: read it, go on with it, do it, or stop."""
        if ask.key is None:
            identity = self._naming.call(ask.branch, ask.name)
        else:
            identity = keyed(ask.name, ask.key)
        call = self._calls.get(identity)
        if call is None:
            return self._ask_new(identity, ask)
        if call.asked is not None:
            return _asked_again(call, ask)
        return self._ask_recorded(call, ask)

    def give_up(self, identity: str) -> None:
        """Take note that the code no longer waits for a call; with a key it may ask again."""
        call = self._calls.get(identity)
        if call is not None:
            call.is_given_up = True

    def _ask_new(self, identity: str, ask: Ask) -> Answer:
        call = self._calls[identity] = TrackedCall(identity, _UNDER_WAY, asked=ask)
        if not self.live:
            call.standing = Standing.HELD
            self._held.append(call)
            return HeldBack(identity)
        skipped = self._left_behind(ask.branch) if self._unread else None
        if skipped is not None:
            call.standing = Standing.UNKNOWN
            return Diverged(Difference.UNREAD, skipped, ask)
        return Fresh(identity)

    def _ask_recorded(self, call: TrackedCall, ask: Ask) -> Answer:
        record = call.written
        difference = _difference(record, ask)
        if difference is not None:
            return Diverged(difference, record, ask)
        call.asked = ask
        self._mark_read(record)
        if record.seq is not None:
            if call.standing is Standing.PASSED:
                heappush(self._late, (record.seq, call.identity))
            call.standing = _READ
            return Read(call.identity)
        if self.live:
            call.standing = _UNDER_WAY
        else:
            call.standing = Standing.HELD
            self._held.append(call)
        return Resume(record)

    def patched(self, patch: str) -> Patched:
        """Return whether code behind a patch takes the new way: the same in every replay."""
        known = self._patches.get(patch)
        if known is not None:
            return Patched(known)
        call = self._calls.get(patch_identity(patch))
        if call is not None:
            call.asked = Ask("", RecordKind.PATCH, patch)
            self._patches[patch] = True
            return Patched(new=True)
        self._patches[patch] = takes_new = self.live or not self._was_past()
        return self._mark_patch(patch) if takes_new else Patched(new=False)

    def _was_past(self) -> bool:
        """Return whether older code has asked for something that this code has not come to yet.

        Marks do not count: one whose change is old is not asked for any more. Neither do the
        cancel and clock records, which no code asks for.
        """
        return bool(self._late) or any(
            call.asked is None and call.written.kind not in _UNASKED
            for call in self._calls.values()
        )

    def _mark_patch(self, patch: str) -> Patched:
        ask = Ask("", RecordKind.PATCH, patch)
        call = TrackedCall(patch_identity(patch), _UNDER_WAY, asked=ask)
        self._calls[call.identity] = call
        return Patched(new=True, identity=call.identity)

    # --- the owner writes -----------------------------------------------------------------------

    def take_position(self) -> int:
        """Return the position for the next record that closes a call; each is used in turn."""
        self.length += 1
        return self.length

    def recorded(self, record: Record) -> None:
        """Take note of a record that is now in history; if it has a position it will be delivered.

        A cancel and the time may be written before history is read: then the body is handed them
        before it can begin anything new.

        Raises:
            InvariantBroken: the body did not ask for it, or it is not the next one.
        """
        identity, seq = record.identity, record.seq
        call = self._calls.get(identity)
        if call is None and record.kind in _OWN:
            call = self._calls[identity] = TrackedCall(identity, _UNDER_WAY)
        is_early = not self.live and record.kind not in _OWN
        if call is None or call.standing is not _UNDER_WAY or is_early:
            raise InvariantBroken(f"record {identity} was written out of turn")
        call.record = record
        if seq is None:
            return
        if seq != self._last + 1:
            raise InvariantBroken(f"record {identity} has position {seq}, not {self._last + 1}")
        self._last = seq
        if seq > self.length:
            self.length = seq
        call.standing = _READ
        self._order.append(call)

    # --- the body is quiet ----------------------------------------------------------------------

    def next(self) -> Turn:
        """Return what to do now that the body is quiet; only then may this be called."""
        if self._late:
            _, identity = heappop(self._late)
            return self._deliver(self._calls[identity])
        while self._order:
            call = self._order[0]
            record = call.record
            assert record is not None
            if call.asked is None and record.kind not in _OWN:
                return self._pass_over(call)
            self._order.popleft()
            if record.kind is not _PATCH:
                return self._deliver(call)
            call.standing = _DELIVERED
        return _WAIT if self.live else self._reach_frontier()

    def _deliver(self, call: TrackedCall) -> Deliver:
        call.standing = _DELIVERED
        record = call.record
        assert record is not None
        seq = record.seq
        if seq is not None and seq > self.read:
            self.read = seq
        if call.asked is None or call.asked.key is None:
            del self._calls[call.identity]  # it cannot be asked for again
        return Deliver(record)

    def _pass_over(self, call: TrackedCall) -> Passed | Diverged:
        if self._policy is Policy.STRICT:
            return Diverged(Difference.ORDER, call.written, self._asked_instead())
        self._order.popleft()
        call.standing = Standing.PASSED
        return Passed(call.written)

    def _asked_instead(self) -> Ask | None:
        """Return what the code waits for while history has something else to hand over."""
        read = [call for call in self._calls.values() if call.standing is _READ]
        waiting = self._held or sorted(read, key=TrackedCall.place)
        return waiting[0].asked if waiting else None

    def _reach_frontier(self) -> Frontier | Diverged:
        for call in self._held:
            if call.asked is not None:
                skipped = self._left_behind(call.asked.branch)
                if skipped is not None:
                    return Diverged(Difference.UNREAD, skipped, call.asked)
        self.live = True
        released: list[Fresh | Resume] = []
        for call in self._held:
            call.standing = _UNDER_WAY
            released.append(Fresh(call.identity) if call.record is None else Resume(call.record))
        self._held.clear()
        return Frontier(tuple(released))

    def end(self) -> Ended | Diverged:
        """Return whether the run may end, now that its body has."""
        if not self._calls:
            return _NOTHING_LEFT
        calls = [call for call in self._calls.values() if call.asked is None]
        left = [call.written for call in sorted(calls, key=TrackedCall.place)]
        unread = tuple(record for record in left if record.kind not in _OWN)
        stops = (record for record in left if record.kind is RecordKind.CANCEL)
        for record in unread:
            if self._policy is Policy.STRICT or is_grave(record):
                return Diverged(Difference.UNREAD, record)
        return Ended(unread, next(stops, None))

    # --- what reached others --------------------------------------------------------------------

    def _left_behind(self, branch: str) -> Record | None:
        """Return a grave record that a branch which goes on to new things has not asked for.

        One with a key could belong to any branch, so it counts for all of them.
        """
        for group in (branch, None):
            for call in self._unread.get(group, {}).values():
                return call.written
        return None

    def _mark_read(self, record: Record) -> None:
        group = branch_of(record.identity)
        unread = self._unread.get(group, {})
        if unread.pop(record.identity, None) is not None and not unread:
            del self._unread[group]


def _asked_again(call: TrackedCall, ask: Ask) -> Answer:
    first = call.asked
    assert first is not None
    same = first.kind is ask.kind and (first.args_hash == ask.args_hash or not ask.compare)
    if not same:
        return Clash(call.identity, first, ask)
    if call.standing is _DELIVERED:
        return Joined(call.identity, call.record)
    if not call.is_given_up:
        return Joined(call.identity, None)
    # Nothing awaits it any more, so it is made again from where it stands.
    call.is_given_up = False
    match call.standing:
        case Standing.READ:
            return Read(call.identity)
        case _ if call.record is not None:
            return Resume(call.record)
        case Standing.HELD:
            return HeldBack(call.identity)
        case _:
            return Fresh(call.identity)


def _difference(record: Record, ask: Ask) -> Difference | None:
    if record.kind is not ask.kind:
        return Difference.KIND
    if record.name != ask.name:
        return Difference.NAME
    both = ask.compare and ask.args_hash is not None and record.args_hash is not None
    if both and ask.args_hash != record.args_hash:
        return Difference.ARGUMENTS
    return None
