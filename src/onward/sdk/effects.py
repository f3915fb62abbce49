"""`app.effects`: the ledger, for those who look after it."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from onward.codec import encode
from onward.core.effect import Verdict
from onward.engine import effects
from onward.engine.payloads import pack
from onward.errors import BadInput, NotFound
from onward.sdk import effect as effect_module
from onward.sdk.display import shown_failure, shown_time, shown_time_or_none, shown_value
from onward.sdk.inside import refuse_in_body
from onward.store.runs import ledger

if TYPE_CHECKING:
    from datetime import datetime

    from onward.model.effects import EffectRow
    from onward.store.store import Store

VerdictWord = Literal["applied", "not_applied", "skip", "ask_again"]


class EffectInfo(NamedTuple):
    """An effect as the ledger has it.

    Attributes:
        id: Its key: what `resolve` is given, and what the receiver was given.
        run: The id of its run.
        state: planned, in_flight, applied, failed, needs_reconcile, indeterminate, skipped or
            withdrawn (its run was told to stop, or ended, before it was sent).
        arguments: What was or will be sent, as plain data.
        attempt: How often it was sent, by the run that has it.
        tries: How often it is sent at most; None means that there is no limit.
        why: Why it is uncertain or did not happen, or why its result could not be kept.
        sent_at: When it was last sent, at the latest.
        judged_from: From when "not applied" counts: until then a frozen worker may still send.
        known_until: Until when the receiver knows the key, if it keeps keys: what is uncertain is
            sent again only if that arrives before.
        asked_at: When it is sent or asked about again by itself.
        can_be_asked: Whether it has a reconciler.
        version: Rises with every change; give it back with a verdict to be sure.
    """

    id: str
    run: str
    run_uid: str
    run_state: str
    name: str
    state: str
    arguments: Any
    attempt: int
    tries: int | None
    asks: int
    needs_approval: bool
    can_be_asked: bool
    why: str | None
    result: Any
    sent_at: datetime | None
    judged_from: datetime | None
    known_until: datetime | None
    asked_at: datetime | None
    verdict: str | None
    decided_by: str | None
    decided_why: str | None
    decided_at: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime


class EffectChoice(NamedTuple):
    """Something that may be said of an effect.

    Attributes:
        verdict: approve, reject, applied, not_applied, skip or ask_again.
        since: From when it counts, if that is not now.
    """

    verdict: str
    since: datetime | None


class Effects:
    """The ledger of an app: what waits for somebody, and what was said of it."""

    def __init__(self, store: Store) -> None:
        self._opened = store

    @property
    def _store(self) -> Store:
        refuse_in_body("a call of app.effects")
        return self._opened

    async def pending(self, *, limit: int = 100, after: str = "") -> list[EffectInfo]:
        """Return effects that are not settled; `after` is the id of the last one of a page."""
        rows = await ledger.open_effects(self._store, limit=limit, after=after)
        return [await self._info(row) for row in rows]

    async def all(self, *, limit: int = 100, after: str = "") -> list[EffectInfo]:
        """Return effects, settled ones too, those of the newest runs first.

        `after` is the id of the last one of a page.
        """
        rows = await ledger.all_effects(self._store, limit=limit, after=after)
        return [await self._info(row) for row in rows]

    async def find(self, beginning: str, *, limit: int = 10) -> list[EffectInfo]:
        """Return effects whose ids begin like this."""
        rows = await ledger.effects_beginning(self._store, beginning, limit)
        return [await self._info(row) for row in rows]

    async def choices(self, effect_id: str) -> list[EffectChoice]:
        """Return what may be said of an effect: now, or from when.

        Raises:
            NotFound: there is none of that id.
        """
        row = await self._row(effect_id)
        now, is_dropped = await self._store.now(), await ledger.is_dropped(self._store, row)
        return [
            EffectChoice(choice.verdict, shown_time_or_none(choice.since))
            for choice in effects.choices(row, now=now, is_dropped=is_dropped)
        ]

    async def of(self, run: str) -> list[EffectInfo]:
        """Return all effects of the newest run of an id."""
        uid = (await self._store.newest(run)).uid
        return [await self._info(row) for row in await ledger.effects_of(self._store, uid)]

    async def get(self, effect_id: str) -> EffectInfo:
        """Return one effect.

        Raises:
            NotFound: there is none of that id.
        """
        return await self._info(await self._row(effect_id))

    async def resolve(
        self,
        effect_id: str,
        verdict: VerdictWord,
        *,
        result: Any = None,
        reason: str,
        version: int | None = None,
        by: str | None = None,
    ) -> EffectInfo:
        """Say what became of an uncertain effect; its run goes on with that.

        Args:
            effect_id: The effect.
            verdict: "applied" (it happened), "not_applied" (it did not, and is sent again), "skip"
                (go on without it: the run gets `EffectSkipped`), or "ask_again": the reconciler
                is asked, or, where there is none and the receiver knows the key, it is sent again.
            result: What the call would have returned, for "applied".
            reason: Why you say so; others will read it.
            version: The version that you saw: if it has changed since, your verdict does not count.
            by: Who you are; by default the user of this process.

        Raises:
            NotFound: there is no such effect.
            VerdictRefused: it is settled, has changed, it is too early to say "not applied", or
                there is nobody who could be asked again.
            Unencodable: the result does not fit the annotation of the effect.
        """
        try:
            word = Verdict(verdict)
        except ValueError:
            words = ", ".join(Verdict)
            raise BadInput(f"verdict {verdict!r}", f"is none of {words}", "Use one") from None
        kept = None
        if word is Verdict.APPLIED:
            kept = await self._encoded(effect_id, result)
        row = await effects.resolve(
            self._store,
            effect_id,
            word,
            result=kept,
            reason=reason,
            by=by or _me(),
            version=version,
        )
        return await self._info(row)

    async def approve(
        self, effect_id: str, *, reason: str, version: int | None = None, by: str | None = None
    ) -> EffectInfo:
        """Let a planned effect be sent, with exactly the arguments that are shown.

        Raises:
            NotFound: there is no such effect.
            VerdictRefused: it does not wait for approval, has changed, or its run was told to stop
                and withdraws it.
        """
        return await self._approval(effect_id, reason, version, by, yes=True)

    async def reject(
        self, effect_id: str, *, reason: str, version: int | None = None, by: str | None = None
    ) -> EffectInfo:
        """Forbid a planned effect: its run gets `NotApplied`."""
        return await self._approval(effect_id, reason, version, by, yes=False)

    async def _approval(
        self, effect_id: str, reason: str, version: int | None, by: str | None, *, yes: bool
    ) -> EffectInfo:
        row = await effects.approve(
            self._store, effect_id, reason=reason, by=by or _me(), version=version, yes=yes
        )
        return await self._info(row)

    async def _row(self, effect_id: str) -> EffectRow:
        row = await ledger.effect(self._store, effect_id)
        if row is None:
            raise NotFound("effect", effect_id, self._store.namespace)
        return row

    async def _encoded(self, effect_id: str, result: Any) -> bytes:
        row = await ledger.effect(self._store, effect_id)
        definitions = effect_module.registered.get(row.name) if row is not None else None
        if definitions:
            return pack(definitions[-1].shape.encode_result(result))
        return pack(encode(result, path="result"))

    async def _info(self, row: EffectRow) -> EffectInfo:
        try:
            run = await self._store.run(row.run)
            name, state = run.id, run.state
        except NotFound:  # its row is gone, but the effect is still to be judged
            name, state = row.run, ""
        return EffectInfo(
            row.key,
            name,
            row.run,
            state,
            row.name,
            row.state,
            shown_value(row.args),
            row.attempt,
            row.tries,
            row.asks,
            row.state == "planned" and not row.approved,
            bool(row.reconciles),
            _why(row),
            shown_value(row.result),
            shown_time_or_none(row.start_by),
            shown_time_or_none(row.settle_until),
            shown_time_or_none(row.known_until),
            shown_time_or_none(row.due),
            row.verdict,
            row.decided_by,
            row.decided_why,
            shown_time_or_none(row.decided_at),
            row.version,
            shown_time(row.created_at),
            shown_time(row.updated_at),
        )


def _why(row: EffectRow) -> str | None:
    if row.error is None or row.result is not None:  # with a result, nothing is uncertain any more
        return None
    return shown_failure(row.error, lambda failure: f"{failure.type}: {failure.message}")


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no user in this container
        return "unknown"
