"""What a run that follows another is told of its beginning, and what its draws are made of."""

from __future__ import annotations

import pytest

from onward.core.beginning import Beginning, beginning_of, read_beginning
from onward.core.chain import Link

FIRST = Beginning(1_000, 900, ((0, "first"),))


def test_a_retry_begins_and_draws_as_the_run_before() -> None:
    assert beginning_of(Link.RETRY, FIRST, "second", 0) == FIRST
    assert beginning_of(Link.RETRY, FIRST, "second", 7) == FIRST


def test_a_fork_draws_anew_once_it_was_handed_what_it_copied() -> None:
    fork = beginning_of(Link.FORK, FIRST, "fork", 3)

    assert fork == Beginning(1_000, 900, ((0, "first"), (3, "fork")))
    assert [fork.seed_at(position) for position in (0, 2, 3, 9)] == [
        "first", "first", "fork", "fork",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("copied", "seeds"),
    [
        (2, ((0, "first"), (2, "second"))),
        (3, ((0, "first"), (3, "second"))),
        (5, ((0, "first"), (3, "fork"), (5, "second"))),
    ],
)
def test_a_fork_of_a_fork_draws_as_each_run_did_for_its_part(
    copied: int, seeds: tuple[tuple[int, str], ...]
) -> None:
    fork = beginning_of(Link.FORK, FIRST, "fork", 3)
    assert fork is not None

    second = beginning_of(Link.FORK, fork, "second", copied)

    assert second is not None
    assert second.seeds == seeds


@pytest.mark.parametrize("link", [Link.FORK, Link.CONTINUE])
def test_a_run_that_repeats_nothing_keeps_only_the_scheduled_time(link: Link) -> None:
    assert beginning_of(link, FIRST, "next", 0) == Beginning(None, 900, ((0, "next"),))


def test_a_run_that_replaces_another_begins_as_any_other() -> None:
    assert beginning_of(Link.REPLACE, FIRST, "next", 0) is None


def test_a_beginning_is_read_as_it_was_encoded() -> None:
    begun = Beginning(1_000, 900, ((0, "first"), (3, "fork")))

    assert read_beginning(begun.encoded()) == begun
