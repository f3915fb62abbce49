"""`app.effects` for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.sdk.background import Background
    from onward.sdk.effects import EffectChoice, EffectInfo, Effects, VerdictWord


class SyncEffects:
    """The ledger of an app, for code without an event loop; see `Effects`."""

    def __init__(self, effects: Effects, background: Background) -> None:
        self._effects = effects
        self._call = background.call

    def pending(self, *, limit: int = 100, after: str = "") -> list[EffectInfo]:
        """Return effects that are not settled."""
        return self._call(self._effects.pending(limit=limit, after=after))

    def all(self, *, limit: int = 100, after: str = "") -> list[EffectInfo]:
        """Return all effects."""
        return self._call(self._effects.all(limit=limit, after=after))

    def find(self, beginning: str, *, limit: int = 10) -> list[EffectInfo]:
        """Return effects whose id begins like this."""
        return self._call(self._effects.find(beginning, limit=limit))

    def choices(self, effect_id: str) -> list[EffectChoice]:
        """Return what can be said of an effect."""
        return self._call(self._effects.choices(effect_id))

    def of(self, run: str) -> list[EffectInfo]:
        """Return all effects of the newest run of an id."""
        return self._call(self._effects.of(run))

    def get(self, effect_id: str) -> EffectInfo:
        """Return one effect."""
        return self._call(self._effects.get(effect_id))

    def resolve(
        self,
        effect_id: str,
        verdict: VerdictWord,
        *,
        result: Any = None,
        reason: str,
        version: int | None = None,
        by: str | None = None,
    ) -> EffectInfo:
        """Say what became of an uncertain effect."""
        said = self._effects.resolve(
            effect_id, verdict, result=result, reason=reason, version=version, by=by
        )
        return self._call(said)

    def approve(
        self, effect_id: str, *, reason: str, version: int | None = None, by: str | None = None
    ) -> EffectInfo:
        """Let a planned effect be sent."""
        return self._call(self._effects.approve(effect_id, reason=reason, version=version, by=by))

    def reject(
        self, effect_id: str, *, reason: str, version: int | None = None, by: str | None = None
    ) -> EffectInfo:
        """Forbid a planned effect."""
        return self._call(self._effects.reject(effect_id, reason=reason, version=version, by=by))
