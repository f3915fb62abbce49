"""`app.effects`: the ledger of effects, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from onward.codec import encode, json_kind
from onward.core.effect import Verdict
from onward.engine.client_engine import Decision
from onward.engine.effect_views import EffectChoice, EffectInfo
from onward.engine.page_sizes import MAX_PAGE, check_size
from onward.engine.payloads import pack
from onward.errors import BadInput, VerdictRefused
from onward.sdk import effect as effect_module
from onward.sdk.given import given_id, read_pages
from onward.sdk.inside import refuse_in_body
from onward.sdk.operator import this_user

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine

__all__ = ["EffectChoice", "EffectInfo", "Effects", "VerdictWord"]

VerdictWord = Literal["applied", "not_applied", "skip", "ask_again"]


class Effects:
    """Operations on the effect ledger of an app (`app.effects`): list effects and settle them."""

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to app.effects")
        return self._opened

    async def pending(self, *, limit: int = 100, after: str = "") -> list[EffectInfo]:
        """Return unsettled effects; `after` is the id of the last effect on the previous page."""
        engine = self._engine
        return await read_pages(
            limit,
            lambda size, last: engine.pending_effects(limit=size, after=last),
            given_id(after, "after"),
            lambda info: info.id,
        )

    async def all(self, *, limit: int = 100, after: str = "") -> list[EffectInfo]:
        """Return all effects, including settled ones; effects of the newest runs come first.

        `after` is the id of the last effect on the previous page.
        """
        engine = self._engine
        return await read_pages(
            limit,
            lambda size, last: engine.all_effects(limit=size, after=last),
            given_id(after, "after"),
            lambda info: info.id,
        )

    async def find(self, beginning: str, *, limit: int = 10) -> list[EffectInfo]:
        """Return effects whose ids begin with the given text; `limit` is at most 1,000."""
        return await self._engine.effects_beginning(
            given_id(beginning, "the effect id"), limit=check_size("limit", limit, MAX_PAGE)
        )

    async def choices(self, effect_id: str) -> list[EffectChoice]:
        """Return the possible verdicts for an effect, and when each becomes possible.

        Raises:
            NotFound: no effect has this id.
        """
        return await self._engine.effect_choices(_effect(effect_id))

    async def of(self, run: str) -> list[EffectInfo]:
        """Return all effects of the newest run with the given id."""
        return await self._engine.effects_of(given_id(run))

    async def get(self, effect_id: str) -> EffectInfo:
        """Return one effect.

        Raises:
            NotFound: no effect has this id.
        """
        return await self._engine.effect(_effect(effect_id))

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
        """Give a verdict on an uncertain effect, so that its run can continue.

        Args:
            effect_id: The id of the effect.
            verdict: "applied" (it happened), "not_applied" (it did not happen, and is sent again),
                "skip" (continue without it: the run gets `EffectSkipped`) or "ask_again" (ask the
                reconciler again or, with an idempotency window, send the effect again while the
                receiver remembers the key).
            result: The return value of the call, for "applied".
            reason: The reason, which is recorded with the verdict.
            version: The `version` of the `EffectInfo` that you looked at. If the effect has changed
                since then, the verdict is refused.
            by: The name of the operator; by default the user of this process.

        Raises:
            NotFound: no effect has this id.
            VerdictRefused: the effect is settled or has changed, it is too early for "not_applied",
                "ask_again" is not possible, or the result is not the kind of JSON value that the
                effect returns.
            Unencodable: the result does not match the effect's return annotation.
        """
        try:
            chosen = Verdict(verdict)
        except ValueError:
            known = ", ".join(Verdict)
            raise BadInput(
                f"verdict {verdict!r}", f"is not one of {known}", "Use one of them"
            ) from None
        kept = await self._encoded(effect_id, result) if chosen is Verdict.APPLIED else None
        decision = Decision(reason, by or this_user(), version)
        return await self._engine.resolve(_effect(effect_id), chosen, decision, result=kept)

    async def approve(
        self, effect_id: str, *, reason: str, version: int | None = None, by: str | None = None
    ) -> EffectInfo:
        """Approve a planned effect, which is then sent with exactly its recorded arguments.

        Raises:
            NotFound: no effect has this id.
            VerdictRefused: the effect is not waiting for approval, has changed, or is being
                withdrawn because its run is being cancelled.
        """
        return await self._engine.approve(
            _effect(effect_id), Decision(reason, by or this_user(), version), yes=True
        )

    async def reject(
        self, effect_id: str, *, reason: str, version: int | None = None, by: str | None = None
    ) -> EffectInfo:
        """Reject a planned effect; its run then gets `NotApplied`."""
        return await self._engine.approve(
            _effect(effect_id), Decision(reason, by or this_user(), version), yes=False
        )

    async def _encoded(self, effect_id: str, result: Any) -> bytes:
        info = await self._engine.effect(_effect(effect_id))
        definitions = effect_module.registered.get(info.name)
        if definitions:
            return pack(definitions[-1].shape.encode_result(result))
        payload = encode(result, path="result")
        annotation, _, kinds = info.returns.rpartition(": ")
        kind = json_kind(payload)
        if kinds and kind not in kinds.split():
            fact = f"is a JSON {kind}, but effect {info.name!r} returns {annotation}"
            raise VerdictRefused(effect_id, f"the result {fact}")
        return pack(payload)


def _effect(given: object) -> str:
    return given_id(given, "the effect id")
