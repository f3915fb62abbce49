"""Schedules: when they fire, the disposition of each slot, and how they are changed."""
