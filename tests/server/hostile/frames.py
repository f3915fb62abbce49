"""The frames of a hostile worker: valid ones, changed ones, random ones, and noise."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import EncodeError

from onward.core.effect.keys import effect_key
from onward.core.ids import uid7
from onward.core.instant import SECOND
from onward.wire.messages import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.server.hostile.values import Forger

_REQUESTS: Final = tuple(
    each for each in messages.Request.DESCRIPTOR.oneofs[0].fields if each.name != "hello"
)
_LEAVING: Final = ("leave", "report_draining")


class FrameMaker:
    """Makes the requests of one hostile worker."""

    def __init__(self, forger: Forger, namespace: str = "hostile") -> None:
        self._forger = forger
        self._rng = forger.rng
        self._pool = forger.pool
        self._name = namespace
        self._ids = itertools.count(1)
        self._steps = itertools.count(1)
        self.has_left = False
        """Whether a frame gave back the lease: with all that follows, the stream can do nothing."""
        self._valid: tuple[Callable[[Any], dict[str, Any]], ...] = (
            self._step,
            self._step,
            self._effect,
            self._approval,
            self._child,
            self._parked,
            self._ended,
            self._started,
            self._call,
        )

    def frame(self) -> bytes:
        """Return the next frame."""
        roll = self._rng.random()
        if roll < 0.02:
            return self._rng.randbytes(self._rng.randrange(1, 200))
        if roll < 0.10:
            return self._claim()
        if roll < 0.40 or not self._pool.runs:
            request = self._random()
        else:
            run = self._rng.choice(list(self._pool.runs.values()))
            request = self._request(**self._rng.choice(self._valid)(run))
            for _ in range(self._rng.choice((0, 0, 1, 1, 2, 3))):
                self._forger.mutate(request)
        try:
            data: bytes = request.SerializeToString()
        except EncodeError:  # it has become larger than a message can be
            return b""
        if self._rng.random() < 0.02:  # a frame that ends too early
            return data[: self._rng.randrange(len(data) + 1)]
        return data

    def _request(self, **request: Any) -> Any:
        number = next(self._ids) if self._rng.random() < 0.95 else self._rng.randrange(5)
        return messages.Request(id=number, **request)

    def _random(self) -> Any:
        each = self._rng.choice(_REQUESTS)
        if each.name in _LEAVING and self._rng.random() < 0.95:
            each = self._rng.choice(_REQUESTS)
        self.has_left = each.name in _LEAVING
        request = self._request()
        inner = getattr(request, each.name)
        inner.SetInParent()
        self._forger.forge(inner, self._rng.choice((0.2, 0.5, 0.9)))
        return request

    def _claim(self) -> bytes:
        limit = self._rng.choice((1, 1, 2, 2, 3, 5, 0, 500 if self._rng.random() < 0.05 else 4))
        wait = self._rng.choice((0, 1, SECOND, -SECOND, (1 << 63) - 1))
        claim = messages.ClaimRequest(limit=limit, wait=wait)
        if self._rng.random() < 0.2:
            self._forger.forge(claim)
        data: bytes = self._request(claim=claim).SerializeToString()
        return data

    # --- valid requests --------------------------------------------------------------------------

    def _commit(self, run: Any, **parts: Any) -> dict[str, Any]:
        number = next(self._steps) if self._rng.random() < 0.9 else 1
        commit = messages.Commit(no=number, run=run.uid, fence=run.fence, **parts)
        return {"commits": messages.CommitsRequest(commits=[commit])}

    def _step(self, run: Any) -> dict[str, Any]:
        number = next(self._steps)
        record = messages.NewRecord(
            identity=f"a#{number}",
            attempt=1,
            seq=number,
            kind="step",
            name="a",
            state="succeeded",
            args_hash="h",
            payload=b"json:1",
        )
        return self._commit(run, records=[record])

    def _written_effect(self, run: Any, identity: str, **given: Any) -> Any:
        fields = {"state": "planned", "version": 1, "approved": 0} | given
        return messages.EffectWrite(
            key=effect_key(run.origin or run.uid, identity),
            run=run.uid,
            identity=identity,
            name="charge",
            title="Charge",
            args=b"json:[1]",
            args_hash="h",
            returns="any",
            **fields,
        )

    def _effect(self, run: Any) -> dict[str, Any]:
        return self._commit(run, effects=[self._written_effect(run, f"c#{next(self._steps)}")])

    def _approval(self, run: Any) -> dict[str, Any]:
        """Approve an effect of the run itself, and report that it was sent."""
        state = self._rng.choice(("planned", "in_flight", "applied", "skipped"))
        version = self._rng.choice((1, 2, 3))
        effect = self._written_effect(run, "c#1", state=state, version=version, approved=1)
        return self._commit(run, effects=[effect])

    def _new_run(self, run: Any) -> Any:
        uid = uid7(self._rng.randrange(1 << 50), self._rng.getrandbits(74))
        return messages.NewRun(
            uid=uid,
            id=f"{self._name}-child-{uid[-6:]}",
            name="attack",
            input=b"json:[]",
            args_hash="h",
            kind="workflow",
            queue=self._name,
            parent=run.uid,
            parent_identity=f"attack#{next(self._steps)}",
            root=run.root or run.uid,
            attempt=1,
        )

    def _child(self, run: Any) -> dict[str, Any]:
        child = self._new_run(run)
        record = messages.NewRecord(
            identity=child.parent_identity, attempt=1, kind="child", name="attack", state="open"
        )
        return self._commit(run, records=[record], starts=[child])

    def _forget(self, run: Any) -> None:
        """Mostly try no more with a run that is let go of: all would be lost."""
        if self._rng.random() < 0.8:
            self._pool.runs.pop(run.uid, None)

    def _parked(self, run: Any) -> dict[str, Any]:
        self._forget(run)
        state = self._rng.choice(("waiting", "ready", "running"))
        return self._commit(run, move=messages.Move(state=state, due_in=0, seq=1))

    def _ended(self, run: Any) -> dict[str, Any]:
        if self._rng.random() < 0.5:
            return self._parked(run)
        self._forget(run)
        state = self._rng.choice(("succeeded", "failed", "cancelled", "timed_out"))
        reason = {"failed": "logic", "cancelled": "requested", "timed_out": "deadline"}.get(state)
        result = b"json:1" if state == "succeeded" else None
        return self._commit(run, move=messages.Move(state=state, reason=reason, result=result))

    def _started(self, run: Any) -> dict[str, Any]:
        by = messages.RunOwner(run=run.uid, fence=run.fence)
        conflict = self._rng.choice((None, "return", "reject", "replace"))
        child = self._new_run(run)
        return {"start": messages.StartRequest(by=by, run=child, on_conflict=conflict)}

    def _call(self, run: Any) -> dict[str, Any]:
        """Call something for a run with few fields set, which mutations then change."""
        by = messages.RunOwner(run=run.uid, fence=run.fence)
        others = [uid for uid, _ in self._pool.others] or [""]
        flow = messages.FlowId(kind="workflow", name=f"{self._name}-flow", scope="")
        calls: dict[str, Any] = {
            "keep_progress": messages.KeepProgressRequest(
                run=run.uid, fence=run.fence, value=b"json:1"
            ),
            "dismiss": messages.DismissRequest(by=by, children=[self._rng.choice(others)]),
            "declare": messages.DeclareRequest(
                by=by, flow=flow, limits=messages.DeclaredLimits(max=2)
            ),
            "reserve_rate": messages.ReserveRateRequest(by=by, name=self._name, interval=1),
            "withdraw_effects": messages.WithdrawEffectsRequest(by=by),
            "retry": messages.RetryRequest(
                by=by, end=messages.Move(state="failed", reason="logic", error=b"json:1"), delay=1
            ),
            "continue_run": messages.ContinueRunRequest(
                by=by,
                end=messages.Move(state="succeeded", reason="continued"),
                given=messages.Continuation(input=b"json:[]", args_hash="h"),
            ),
            "give_up": messages.GiveUpRequest(
                by=by, name="attack", move=messages.Move(state="failed", reason="internal")
            ),
            "load": messages.LoadRequest(histories=[run.uid]),
            "audit": messages.AuditRequest(known=list(self._pool.runs)),
        }
        name = self._rng.choice(list(calls))
        return {name: calls[name]}
