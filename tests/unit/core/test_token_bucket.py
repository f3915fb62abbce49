"""Token buckets: never more than allowed, never refused for good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onward.core.instant import MILLISECOND, SECOND
from onward.core.token_bucket import Bucket, BucketLimits, full, is_full, take

LIMITS = BucketLimits(rate=10, burst=3)
ALL = st.builds(BucketLimits, st.integers(1, 50), st.integers(1, 20))
CALLS = st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(1, 30)), max_size=30)


def test_a_burst_is_taken_at_once_and_then_the_rate_holds() -> None:
    bucket = full(LIMITS, 0)
    for _ in range(3):
        bucket, wait = take(LIMITS, bucket, 0)
        assert wait == 0
    assert take(LIMITS, bucket, 0).wait == 100 * MILLISECOND
    assert take(LIMITS, bucket, 100 * MILLISECOND).wait == 0


def test_a_refusal_takes_nothing() -> None:
    empty = Bucket(0, 0)
    refused = take(LIMITS, empty, 0, 2)
    assert refused.wait == 200 * MILLISECOND
    assert refused.bucket == empty


def test_a_clock_that_goes_back_fills_nothing() -> None:
    bucket = take(LIMITS, full(LIMITS, SECOND), SECOND, 3).bucket
    assert take(LIMITS, bucket, 0).wait > 0
    assert take(LIMITS, bucket, 0).bucket.at == SECOND


def test_more_than_a_bucket_holds_is_let_through_and_delays_what_follows() -> None:
    bucket, wait = take(LIMITS, full(LIMITS, 0), 0, 13)
    assert wait == 0
    assert take(LIMITS, bucket, 0).wait == 1100 * MILLISECOND


def test_a_bucket_is_full_again_after_a_while() -> None:
    bucket = take(LIMITS, full(LIMITS, 0), 0, 3).bucket
    assert not is_full(LIMITS, bucket, 299 * MILLISECOND)
    assert is_full(LIMITS, bucket, 300 * MILLISECOND)


@given(ALL, CALLS)
def test_no_time_sees_more_than_the_burst_and_the_rate(
    limits: BucketLimits, calls: list[tuple[int, int]]
) -> None:
    bucket, now, taken, last = full(limits, 0), 0, 0, 0
    for passed, count in calls:
        now += passed
        bucket, wait = take(limits, bucket, now, count)
        if wait == 0:
            taken, last = taken + count, count
        # The last call may have taken more than there was; those before it are within the limit.
        assert (taken - last) * SECOND <= limits.burst * SECOND + now * limits.rate


@given(ALL, CALLS)
def test_whoever_waits_as_long_as_asked_is_let_through(
    limits: BucketLimits, calls: list[tuple[int, int]]
) -> None:
    bucket, now = full(limits, 0), 0
    for passed, count in calls:
        now += passed
        bucket, wait = take(limits, bucket, now, count)
        if wait:
            assert take(limits, bucket, now + wait - 1, count).wait > 0
            now += wait
            bucket, wait = take(limits, bucket, now, count)
            assert wait == 0
