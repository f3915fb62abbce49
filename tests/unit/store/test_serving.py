"""Why no worker takes a run: the first thing that all of them lack."""

from __future__ import annotations

import pytest

from onward.store.runs.serving import Kind, Server, why_not


def a_server(
    queues: str = "default", names: str = "greet", version: str | None = None, tags: str = ""
) -> Server:
    texts = (frozenset(text.split()) for text in (queues, names, tags))
    served, known, marked = texts
    return Server(served, known, version, marked)


PLAIN = Kind("default", "greet", None, "")


@pytest.mark.parametrize(
    ("kind", "servers"),
    [
        (PLAIN, [a_server()]),
        (PLAIN, [a_server("other"), a_server("other default", "charge greet", "v1", "gpu")]),
        (PLAIN._replace(version="v1"), [a_server(version="v2"), a_server(version="v1")]),
        (PLAIN._replace(tags="eu gpu"), [a_server(), a_server(tags="gpu")]),
    ],
)
def test_one_worker_that_can_take_a_run_is_enough(kind: Kind, servers: list[Server]) -> None:
    assert why_not(kind, servers) is None


@pytest.mark.parametrize(
    ("kind", "servers", "why"),
    [
        (PLAIN, [], "no worker serves queue 'default'"),
        (PLAIN, [a_server("other")], "no worker serves queue 'default'"),
        (PLAIN, [a_server(names="charge")], "no worker knows workflow 'greet'"),
        # One serves the queue, another knows the workflow: neither can take it.
        (PLAIN, [a_server(names=""), a_server("other")], "no worker knows workflow 'greet'"),
        (PLAIN._replace(version="v1"), [a_server()], "no worker has version 'v1'"),
        (PLAIN._replace(tags="eu"), [a_server(tags="e u")], "no worker has one of the tags 'eu'"),
    ],
)
def test_the_first_thing_that_all_lack_is_named(
    kind: Kind, servers: list[Server], why: str
) -> None:
    assert why_not(kind, servers) == why
