"""Slots in every time zone around every transition, counted in another way.

The wall clock of a zone is read every 15 minutes around each transition from 2024 to 2037, and what
a cron expression should do there is told from these readings alone.

    python -m tests.unit.engine.zones            # all zones, about two minutes
    python -m tests.unit.engine.zones Europe/Berlin Asia/Gaza
"""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from onward.engine.schedules.cron import Cron

if TYPE_CHECKING:
    from collections.abc import Iterable

GRID = 900
DAY = 86_400
FIRST = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
LAST = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())

HOURLY = ("0 * * * *", "*/30 * * * *")
DAILY = {"30 2 * * *": 9000, "0 0 * * *": 0, "45 23 * * *": 85_500, "0 1 * * *": 3600}


class Reading(NamedTuple):
    """What the wall clock of a zone shows at a second of UTC."""

    at: int
    day: date
    second: int


def transitions(zone: ZoneInfo) -> list[int]:
    """Return about when the clocks of a zone are set, to the day."""
    offsets = {at: datetime.fromtimestamp(at, zone).utcoffset() for at in range(FIRST, LAST, DAY)}
    return [at for at in range(FIRST + DAY, LAST, DAY) if offsets[at] != offsets[at - DAY]]


def readings(zone: ZoneInfo, around: int) -> list[Reading]:
    """Return the wall clock of five days around a transition."""
    found = []
    for at in range(around - 3 * DAY, around + 2 * DAY, GRID):
        wall = datetime.fromtimestamp(at, zone)
        assert wall.second == 0
        found.append(Reading(at, wall.date(), wall.hour * 3600 + wall.minute * 60))
    return found


def whole_days(wall: list[Reading]) -> list[date]:
    """Return the days of which no hour is cut off."""
    return sorted({reading.day for reading in wall} - {wall[0].day, wall[-1].day})


def wrong_around(name: str, around: int) -> list[str]:
    """Return the expressions whose slots around a transition are not those of the wall clock."""
    wall = readings(ZoneInfo(name), around)
    days = whole_days(wall)
    inside = [reading for reading in wall if reading.day in days]
    begin, end = inside[0].at, inside[-1].at + GRID
    wrong = []
    for expression in HOURLY:
        step = 3600 if expression.startswith("0 ") else 1800
        expected = [reading.at for reading in inside if reading.second % step == 0]
        if slots(name, expression, begin, end) != expected:
            wrong.append(expression)
    for expression, second in DAILY.items():
        # Once a day: when the wall shows that time or, for the first time, a later one.
        fires = (
            next(each.at for each in wall if (each.day, each.second) >= (day, second))
            for day in days
        )
        if slots(name, expression, begin, end) != [at for at in fires if at < end]:
            wrong.append(expression)
    return wrong


def slots(name: str, expression: str, begin: int, end: int) -> list[int]:
    """Return the slots of an expression; the three ways to ask for them must agree."""
    cron = Cron(expression, name)
    found = list(cron.forward(begin, end))
    assert cron.count(begin, end) == len(found)
    assert cron.newest(begin, end, 10_000) == found
    return found


def wrong_days(name: str) -> list[str]:
    """Return the daily expressions that do not fire once on each day of all the years."""
    zone = ZoneInfo(name)
    days = (LAST - FIRST) // DAY - 2
    begin = datetime(2024, 1, 2, tzinfo=zone)
    end = datetime(2024, 1, 2) + timedelta(days=days)  # noqa: DTZ001 - it gets its zone below
    span = int(begin.timestamp()), int(end.replace(tzinfo=zone).timestamp())
    return [expression for expression in DAILY if Cron(expression, name).count(*span) != days]


def campaign(zones: Iterable[str]) -> list[str]:
    """Return everything that is wrong in some zones."""
    wrong = []
    for name in zones:
        wrong += [f"{name}: {expression} in all years" for expression in wrong_days(name)]
        for around in transitions(ZoneInfo(name)):
            when = datetime.fromtimestamp(around, UTC).date()
            wrong += [f"{name}: {bad} near {when}" for bad in wrong_around(name, around)]
    return wrong


if __name__ == "__main__":
    chosen = sys.argv[1:] or sorted(available_timezones())
    found = campaign(chosen)
    print(*found, sep="\n")
    print(f"{len(chosen)} zones, {len(found)} wrong")
    sys.exit(bool(found))
