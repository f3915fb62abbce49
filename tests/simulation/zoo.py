"""How bugs that are put in on purpose are looked for: in worlds that have much of one trouble.

The worlds of the command have all of these troubles too, only more rarely.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onward.store.statements import Dialect, _statements
from tests.simulation.simulator import Failed, Simulation
from tests.simulation.simulator.line import Weather
from tests.simulation.simulator.plan import draw_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from onward.store.statements import Statement
    from tests.simulation.simulator.plan import Plan

CALM = Weather(delay=0.001, hints_lost=0.0, answers_lost=0.0, clears=0.0)
LOSSY = Weather(delay=0.001, hints_lost=0.0, answers_lost=0.3, clears=60.0)


def quiet(seed: int, *kinds: str, **changes: Any) -> Plan:
    """Return a plan with runs of these kinds and no trouble but what is given."""
    plan = replace(
        draw_plan(seed, kinds),
        weather=CALM,
        crashes=(),
        stops=(),
        outages=(),
        jumps=(),
        pauses=0.0,
        meddling=0.0,
        freezes=0.0,
        skew=0.0,
        is_server=False,
        schedules=(),
        post=None,
    )
    return replace(plan, **changes)


def caught(plan: Callable[[int], Plan], within: int, *, first: int = 0) -> str:
    """Return what the first world says that sees the bug which is in, of so many worlds.

    All are tried, but from `first` on, which is where it was seen last time.
    """
    for seed in (*range(first, within), *range(first)):
        try:
            Simulation(seed, plan(seed)).run()
        except Failed as failed:
            return str(failed)
    return f"none of {within} worlds has seen it"


def rewrite(monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    """Change a part of a statement."""
    render = Dialect.render

    def changed(self: Dialect, each: str, text: str, order: tuple[str, ...] = ()) -> Statement:
        if each == name:
            assert old in text, f"{name} has no {old!r} any more"
            text = text.replace(old, new)
        return render(self, each, text, order)

    monkeypatch.setattr(Dialect, "render", changed)
    # Rendered anew: the statements of a process are shared.
    monkeypatch.setattr(Dialect, "statements", _statements.__wrapped__)
