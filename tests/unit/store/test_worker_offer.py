"""Why no worker takes a run: the first thing that all of them lack."""

from __future__ import annotations

import pytest

from onward.model.workers import RunNeeds, WorkerOffer, why_not


def an_offer(
    queues: str = "default", names: str = "greet", version: str | None = None, tags: str = ""
) -> WorkerOffer:
    texts = (frozenset(text.split()) for text in (queues, names, tags))
    served, known, marked = texts
    return WorkerOffer(served, known, version, marked, "w-1")


PLAIN = RunNeeds("default", "greet", None, "")


@pytest.mark.parametrize(
    ("kind", "offers"),
    [
        (PLAIN, [an_offer()]),
        (PLAIN, [an_offer("other"), an_offer("other default", "charge greet", "v1", "gpu")]),
        (PLAIN._replace(version="v1"), [an_offer(version="v2"), an_offer(version="v1")]),
        (PLAIN._replace(tags="eu gpu"), [an_offer(), an_offer(tags="gpu")]),
    ],
)
def test_one_worker_that_can_take_a_run_is_enough(
    kind: RunNeeds, offers: list[WorkerOffer]
) -> None:
    assert why_not(kind, offers) is None


@pytest.mark.parametrize(
    ("kind", "offers", "why"),
    [
        (PLAIN, [], "no worker serves queue 'default'"),
        (PLAIN, [an_offer("other")], "no worker serves queue 'default'"),
        (PLAIN, [an_offer(names="charge")], "no worker knows workflow 'greet'"),
        # One serves the queue, another knows the workflow: neither can take it.
        (
            PLAIN,
            [an_offer(names=""), an_offer("other")],
            "no worker on queue 'default' knows workflow 'greet'; worker w-1 on queue 'other' does",
        ),
        (PLAIN._replace(version="v1"), [an_offer()], "no worker has version 'v1'"),
        (PLAIN._replace(tags="eu"), [an_offer(tags="e u")], "no worker has one of the tags 'eu'"),
    ],
)
def test_the_first_thing_that_all_lack_is_named(
    kind: RunNeeds, offers: list[WorkerOffer], why: str
) -> None:
    assert why_not(kind, offers) == why
