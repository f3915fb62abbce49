"""Limits of a server's clients: calls, streams, payloads, in bounded memory."""

from __future__ import annotations

import pytest

from onward.core.access import Principal, open_principal
from onward.core.instant import SECOND
from onward.core.token_bucket import BucketLimits
from onward.engine.access.buckets import Buckets
from onward.engine.access.limits import RequestLimits, ServerLimits
from onward.errors import RateLimited
from onward.testing.clock import VirtualClock

ONE = Principal("a", "one", "shop", frozenset())
TWO = Principal("b", "two", "shop", frozenset())
OTHER = Principal("c", "other", "bank", frozenset())
LIMITS = ServerLimits(BucketLimits(1, 2), BucketLimits(1, 3), streams=1, payload_bytes=4)


def test_a_key_that_calls_too_often_waits_and_others_do_not() -> None:
    clock = VirtualClock()
    limits = RequestLimits(clock, LIMITS)
    limits.admit(ONE, 2)
    with pytest.raises(RateLimited, match=r"key 'one' made more than 1 calls a second.*1 s\."):
        limits.admit(ONE)
    limits.admit(TWO)
    clock.advance(SECOND)
    limits.admit(ONE)


def test_keys_share_the_limit_of_their_namespace() -> None:
    limits = RequestLimits(VirtualClock(), LIMITS)
    limits.admit(ONE, 2)
    limits.admit(TWO)
    with pytest.raises(RateLimited, match="namespace 'shop'"):
        limits.admit(TWO)
    limits.admit(OTHER)


def test_a_refused_call_does_not_count_for_its_namespace() -> None:
    limits = RequestLimits(VirtualClock(), LIMITS)
    limits.admit(ONE, 2)
    for _ in range(5):
        with pytest.raises(RateLimited, match="key"):
            limits.admit(ONE)
    limits.admit(TWO)


def test_clients_of_an_open_server_are_limited_by_namespace() -> None:
    limits = RequestLimits(VirtualClock(), LIMITS)
    limits.admit(open_principal("mine"), 2)
    with pytest.raises(RateLimited):
        limits.admit(open_principal("mine"))
    limits.admit(open_principal("yours"))


def test_a_key_has_so_many_streams_at_a_time() -> None:
    limits = RequestLimits(VirtualClock(), LIMITS)
    with limits.stream(ONE):
        with limits.stream(TWO), pytest.raises(RateLimited, match="open streams"):
            limits.stream(ONE).__enter__()
        limits.stream(TWO).__enter__()
    with limits.stream(ONE):
        pass


def test_buckets_are_forgotten_when_there_are_too_many() -> None:
    clock = VirtualClock()
    buckets = Buckets(clock, BucketLimits(1, 1), max_buckets=100)
    for number in range(1000):
        buckets.take(f"address {number}")
        assert len(buckets) <= 100
    assert buckets.wait("address 999") > 0
    clock.advance(SECOND)
    buckets.take("one")
    for number in range(99):
        buckets.take(f"other {number}")
    assert buckets.wait("one") > 0
