"""Which tests of the SDK run through a server too, and which cannot.

`pytest --remote file tests/sdk` runs all tests that take an App through a server on a SQLite file,
`--remote postgres` on Postgres. Without it only those of `ALSO_REMOTE` run through a server too.
"""

ALSO_REMOTE = frozenset(
    {
        "children.test_started_runs",
        "effects.test_verdicts",
        "runs.test_arguments_of_lists",
        "maps.test_held_results",
        "runs.test_conflicts",
        "pipelines.test_large_events",
        "runs.test_progress",
        "signals.test_large_signals",
        "signals.test_signals",
        "workers.test_workers_listed",
    }
)
"""Modules whose tests run through a server on a SQLite file too, even without `--remote`."""

_MEMORY = "it is about a database in memory, or about the database itself"

NOT_REMOTE: dict[str, str] = {
    "errors.test_unsuccessful_ends.test_the_error_of_a_run_in_memory_names_no_command": _MEMORY,
    "workers.test_freed_memory.test_a_run_with_effects_is_freed_when_it_pauses_and_when_it_ends": (
        "asyncio keeps the timer of a sent effect while other timers, such as those of pings, come"
        " before it"
    ),
}
"""Modules, and single tests, that cannot run through a server, and why."""
