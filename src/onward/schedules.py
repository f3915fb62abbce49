"""Schedules: `Schedule` and `@schedule` for code, and the types that `app.schedules` returns."""

from onward.sdk.schedule import Schedule, schedule
from onward.sdk.schedules import ScheduleInfo, Schedules, Slot

__all__ = ["Schedule", "ScheduleInfo", "Schedules", "Slot", "schedule"]
