"""The plan of a simulated world: all that its seed decides before it begins.

Each kind of trouble is on in some worlds and off in others, so that no kind always hides another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.line import Weather

SEATS = 2
"""How many workers there are at a time."""

MAX_TURNS = 1000
"""About how many turns a worker has while there is something to do."""

TROUBLE_SECONDS = 60.0
"""After this nothing bad happens any more."""

DAY_SECONDS = 86_400.0


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
    """The database cannot be reached for a while, or turns everybody away."""

    begin: float
    seconds: float
    is_refusal: bool = False
    """Whether it is there, but refuses, as a server does that takes no logins."""


@dataclass(frozen=True, slots=True)
class Jump:
    """The clock is set forward, or back; for good, or for a moment only."""

    begin: float
    seconds: float
    back_after: float | None = None
    """After how many seconds the clock is put right again, if it is."""


@dataclass(frozen=True, slots=True)
class Post:
    """Pipelines of a world."""

    faults: float
    """How often a phase of a handler fails."""
    meddling: float
    """How often an operator does something that nobody needs."""
    deploy: float | None = None
    """After how many seconds workers get changed code, if they do."""
    acts: tuple[str, ...] = ()
    """What the operator does, if not everything."""


@dataclass(frozen=True, slots=True)
class Death:
    """A server dies, and another one comes after a while."""

    seat: int
    after: float
    """For how many seconds it has served by then."""
    gone: float


@dataclass(frozen=True, slots=True)
class Wire:
    """Workers reach the database through servers."""

    delay: float
    """The most seconds that a frame takes."""
    cuts: float
    """At how many of the frames their stream breaks."""
    calls_lost: float
    """How many calls get lost, or arrive twice."""
    clears: float
    """After how many seconds nothing gets lost any more."""
    deaths: tuple[Death, ...] = ()
    stalls: float = 0.0
    """At how many of the frames their stream stands still for a while."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens in a world, as far as it is decided beforehand."""

    workflows: tuple[str, ...]
    slots: int
    warm: int
    weather: Weather
    crashes: tuple[Crash, ...] = ()
    stops: tuple[Stop, ...] = ()
    outages: tuple[Outage, ...] = ()
    jumps: tuple[Jump, ...] = ()
    pauses: float = 0.0
    """How many of the runs are paused for a while."""
    meddling: float = 0.0
    """How often clients start runs again, send messages again, or fork and retry runs."""
    freezes: float = 0.0
    """How many workers stand still for long while something that they sent is on its way."""
    skew: float = 0.0
    """By how many seconds the clocks of the machines differ at most."""
    is_server: bool = False
    """Whether the database has a clock that goes back when it is put back."""
    schedules: tuple[str, ...] = ()
    """Which schedules there are."""
    post: Post | None = None
    """What happens to pipelines, if there are any."""
    wire: Wire | None = None
    """The wire to servers, if workers have no line of their own to the database."""


def draw_plan(seed: int, kinds: tuple[str, ...]) -> Plan:
    """Return the plan of the world with this seed; its runs are of these kinds."""
    draw = Draw(seed, "plan")
    is_server = draw.happens(0.5)
    return Plan(
        workflows=tuple(draw.one_of(kinds) for _ in range(1 + draw.below(4))),
        slots=draw.one_of((1, 2, 100)),
        warm=draw.one_of((0, 0, 1, 1000)),
        weather=Weather(
            delay=draw.one_of((0.0, 0.001, 0.05, 0.5)),
            hints_lost=draw.one_of((0.0, 0.3, 1.0)),
            answers_lost=draw.one_of((0.0, 0.0, 0.05)),
            clears=TROUBLE_SECONDS,
        ),
        crashes=tuple(_crash(draw) for _ in range(draw.one_of((0, 1, 1, 2)))),
        stops=tuple(_stop(draw) for _ in range(draw.one_of((0, 0, 1, 2)))),
        outages=tuple(_outage(draw) for _ in range(draw.one_of((0, 0, 1, 2)))),
        jumps=tuple(_jump(draw, is_server=is_server) for _ in range(draw.one_of((0, 0, 0, 1, 2)))),
        pauses=draw.one_of((0.0, 0.5)),
        meddling=draw.one_of((0.0, 0.5)),
        freezes=draw.one_of((0.0, 0.0, 0.5)),
        skew=draw.one_of((0.0, 0.0, 5.0)),
        is_server=is_server,
    )


def draw_post(seed: int, plan: Plan, *, often: float = 0.2) -> Plan:
    """Return a plan that may have pipelines; what else it has stays."""
    draw = Draw(seed, "post")
    if plan.schedules or not draw.happens(often):
        return plan
    deploy = draw.one_of((None, draw.upto(TROUBLE_SECONDS)))
    faults, meddling = draw.one_of((0.0, 0.1, 0.3)), draw.one_of((0.0, 0.5, 0.8))
    return replace(plan, post=Post(faults, meddling, deploy))


def draw_pipelines(seed: int, kinds: tuple[str, ...]) -> Plan:
    """Return the plan of a world with pipelines, and with at most one other run."""
    plan = draw_post(seed, draw_plan(seed, kinds), often=1.0)
    return replace(plan, workflows=plan.workflows[: seed % 2])


def draw_wire(seed: int, plan: Plan) -> Plan:
    """Return a plan in which workers reach the database through servers."""
    draw = Draw(seed, "wire plan")
    deaths = tuple(
        Death(draw.below(2), draw.upto(TROUBLE_SECONDS), draw.upto(20))
        for _ in range(draw.one_of((0, 1, 2, 3)))
    )
    wire = Wire(
        delay=draw.one_of((0.0, 0.001, 0.05, 0.5)),
        cuts=draw.one_of((0.0, 0.0, 0.002, 0.02)),
        calls_lost=draw.one_of((0.0, 0.0, 0.1)),
        clears=TROUBLE_SECONDS,
        deaths=deaths,
        stalls=draw.one_of((0.0, 0.0, 0.002)),
    )
    return replace(plan, wire=wire)


def _crash(draw: Draw) -> Crash:
    return Crash(draw.below(SEATS), draw.magnitude(MAX_TURNS), draw.happens(0.5), draw.upto(20))


def _stop(draw: Draw) -> Stop:
    return Stop(draw.below(SEATS), draw.magnitude(MAX_TURNS), draw.one_of((2, 14, 16, 40)))


def _outage(draw: Draw) -> Outage:
    begin, seconds = draw.upto(TROUBLE_SECONDS / 2), draw.one_of((3, 9, 14, 22, 40))
    return Outage(begin, draw.upto(seconds), is_refusal=draw.happens(0.3))


def _jump(draw: Draw, *, is_server: bool) -> Jump:
    begin, is_blip = draw.upto(TROUBLE_SECONDS), draw.happens(0.2)
    if is_blip and not is_server:
        return Jump(begin, DAY_SECONDS, back_after=draw.upto(5))
    return Jump(begin, draw.one_of((-120.0, -60.0, -20.0, -1.0, 20.0)))
