"""Modules import each other in pairs at most, imports for types alone included."""

from tools.measure import cycles


def test_no_more_than_two_modules_import_each_other() -> None:
    assert [sorted(cycle) for cycle in cycles() if len(cycle) > 2] == []
