"""Limits as they are stored: what the code declares, what operators set, what is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from onward.core.flow import FlowId, FlowKind, FlowLimits, Hold, Rate, Starts
from onward.core.instant import Instant

EVERY_KEY: Final = "*"
"""The name of the row that holds for all keys of a queue that have no row of their own."""


class FlowRow(NamedTuple):
    """The row of a queue, a workflow, a key or an effect."""

    kind: str
    scope: str
    name: str
    declared_max: int | None = None
    operator_max: int | None = None
    declared_count: int | None = None
    declared_period: int | None = None
    operator_count: int | None = None
    operator_period: int | None = None
    declared_hold: str | None = None
    operator_hold: str | None = None
    weight: int = 1
    paused: int = 0
    starts: str = ""
    next_at: Instant | None = None
    turns: str = ""

    @property
    def id(self) -> FlowId:
        """What it is about."""
        return FlowId(FlowKind(self.kind), self.name, self.scope)

    @property
    def declared(self) -> DeclaredLimits:
        """What the code says."""
        rate = _rate(self.declared_count, self.declared_period)
        return DeclaredLimits(self.declared_max, rate, _hold(self.declared_hold))

    @property
    def operator(self) -> DeclaredLimits:
        """What an operator said."""
        rate = _rate(self.operator_count, self.operator_period)
        return DeclaredLimits(self.operator_max, rate, _hold(self.operator_hold))

    @property
    def limits(self) -> FlowLimits:
        """What is in force: an operator's word wins."""
        return in_force(self.operator, self.declared, is_paused=bool(self.paused))

    @property
    def is_unset(self) -> bool:
        """Whether nothing is set for it: the row is there for what a claim remembers."""
        return self == FlowRow(
            self.kind, self.scope, self.name,
            starts=self.starts, next_at=self.next_at, turns=self.turns,
        )  # fmt: skip

    def declare(self, given: DeclaredLimits) -> FlowRow:
        """Return the row with other limits that the code declares."""
        rate = given.rate
        return self._replace(
            declared_max=given.max,
            declared_count=None if rate is None else rate.count,
            declared_period=None if rate is None else rate.period,
            declared_hold=given.hold,
        )

    def override(self, given: DeclaredLimits) -> FlowRow:
        """Return the row with other limits that an operator sets."""
        rate = given.rate
        return self._replace(
            operator_max=given.max,
            operator_count=None if rate is None else rate.count,
            operator_period=None if rate is None else rate.period,
            operator_hold=given.hold,
        )


@dataclass(frozen=True, slots=True)
class DeclaredLimits:
    """Limits that the code, or an operator, gives; None: nothing is said of it."""

    max: int | None = None
    rate: Rate | None = None
    hold: Hold | None = None


def in_force(*given: DeclaredLimits, is_paused: bool = False) -> FlowLimits:
    """Return what is in force of limits, the strongest first."""
    return FlowLimits(
        next((each.max for each in given if each.max is not None), None),
        next((each.rate for each in given if each.rate is not None), None),
        next((each.hold for each in given if each.hold is not None), Hold.RUNNING),
        is_paused,
    )


def _rate(count: int | None, period: int | None) -> Rate | None:
    return None if count is None or period is None else Rate(count, period)


def _hold(text: str | None) -> Hold | None:
    return None if text is None else Hold(text)


def write_starts(starts: Starts) -> str:
    """Return starts as they are stored."""
    return " ".join(f"{number}:{count}" for number, count in starts)


def read_starts(text: str) -> Starts:
    """Return starts that were stored."""
    pairs = (pair.split(":") for pair in text.split())
    return tuple((int(number), int(count)) for number, count in pairs)
