"""The plan of a simulated world: all that its seed decides before it begins.

Each kind of trouble is on in some worlds and off in others, so that no kind always hides another.
"""

from __future__ import annotations

from dataclasses import dataclass

from onward.testing.simulation.draw import Draw
from onward.testing.simulation.line import Weather

SEATS = 2
"""How many workers there are at a time."""

TURNS_MOST = 1000
"""About how many turns a worker has while there is something to do."""

TROUBLE_SECONDS = 60.0
"""After this nothing bad happens any more."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The worker in a seat dies at one of its turns, and a new one comes after a while."""

    seat: int
    turn: int
    is_noticed: bool
    """Whether its lease ends at once, as where the system tells who died, or runs out."""
    gone: float
    """For how many seconds the seat stays empty."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The worker in a seat stands still for some seconds, and does not know it."""

    seat: int
    turn: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Outage:
    """The database cannot be reached for a while."""

    begin: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Jump:
    """Somebody puts the clock of the machine forward, or back."""

    begin: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens in a world, as far as it is decided beforehand."""

    errands: tuple[str, ...]
    slots: int
    warm: int
    weather: Weather
    crashes: tuple[Crash, ...] = ()
    stops: tuple[Stop, ...] = ()
    outages: tuple[Outage, ...] = ()
    jumps: tuple[Jump, ...] = ()
    pauses: float = 0.0
    """How many of the runs somebody pauses for a while."""


def draw_plan(seed: int, kinds: tuple[str, ...]) -> Plan:
    """Return the plan of the world with this seed; its runs are of these kinds."""
    draw = Draw(seed, "plan")
    return Plan(
        errands=tuple(draw.one_of(kinds) for _ in range(1 + draw.below(4))),
        slots=draw.one_of((1, 2, 100)),
        warm=draw.one_of((0, 1, 1000)),
        weather=Weather(
            delay=draw.one_of((0.0, 0.001, 0.05, 0.5)),
            hints_lost=draw.one_of((0.0, 0.3, 1.0)),
            answers_lost=draw.one_of((0.0, 0.0, 0.05)),
            clears=TROUBLE_SECONDS,
        ),
        crashes=tuple(_crash(draw) for _ in range(1 + draw.below(2))),
        stops=tuple(_stop(draw) for _ in range(draw.below(3))),
        outages=tuple(
            Outage(draw.upto(TROUBLE_SECONDS), draw.upto(25)) for _ in range(draw.one_of((0, 0, 1)))
        ),
        jumps=tuple(
            Jump(draw.upto(TROUBLE_SECONDS), draw.one_of((-20.0, -1.0, 20.0)))
            for _ in range(draw.one_of((0, 0, 1)))
        ),
        pauses=draw.one_of((0.0, 0.5)),
    )


def _crash(draw: Draw) -> Crash:
    return Crash(draw.below(SEATS), draw.magnitude(TURNS_MOST), draw.happens(0.5), draw.upto(20))


def _stop(draw: Draw) -> Stop:
    return Stop(draw.below(SEATS), draw.magnitude(TURNS_MOST), draw.one_of((2, 14, 16, 40)))
