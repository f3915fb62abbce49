"""How much a client may ask of a server at a time."""

from __future__ import annotations

from typing import NamedTuple

from onward.wire.rpc import MAX_MESSAGE_BYTES, MAX_REPLY_BYTES

_MIB = 1024 * 1024

MAX_CLAIM = 500
"""How many runs one claim may take."""

MAX_SUSPECTS = 100
"""For how many numbers of crashes one claim may name a room."""

MAX_WAIT_SECONDS = 20.0
"""How long a claim may wait: proxies close streams on which nothing is sent."""

PING_SECONDS = 10.0
SILENCE_SECONDS = 25.0
"""A stream on which nothing has arrived for this long is dead."""

CLAIM_BYTES = 16 * _MIB
"""About how large the runs of one claim may be together."""

MAX_LOADS = 4
"""How many loads and lists of one stream may be in memory."""

ENVELOPE_BYTES = 100
"""More than a frame has beside its reply."""

READ_BYTES = 4 * _MIB
"""About how much of the outcomes of runs is read at a time for one client that waits for them."""

REFUSAL_SHARE = 0.005
"""The share of the server's time that refused requests of one stream may take."""

MAX_REFUSAL_SECONDS = 5.0
"""How long a stream is not read at most after refused requests."""

STOP_SECONDS = 10.0
"""How long a server may take to stop."""


class StreamLimits(NamedTuple):
    """The limits of one stream.

    Attributes:
        message_bytes: The size of a gRPC message of a client; a larger one ends the stream.
        reply_bytes: The size of a gRPC message of the server; instead of a larger one, it sends the
            error that there is one.
        frame_bytes: The size from which on a reply is sent in parts.
        payload_bytes: The size of one argument, result or error.
        commits: How many commits may be unanswered; the server reads no further until some are.
        commit_bytes: The size of all unanswered commits.
        calls: How many other requests may be unanswered.
        watched: How many runs a client may wait for.
        unsent_frames: How many frames may wait to be sent; while there are more, nothing is read,
            and large replies wait.
        unsent_bytes: The size of all frames that wait to be sent.
        unread_seconds: How long a client may take to read one frame; then it is disconnected.
        refusal_seconds: How long at least the server does not read a stream after it has refused a
            request or a commit.
    """

    message_bytes: int = MAX_MESSAGE_BYTES
    reply_bytes: int = MAX_REPLY_BYTES
    frame_bytes: int = 4 * _MIB
    payload_bytes: int = 2 * _MIB
    commits: int = 4096
    commit_bytes: int = 16 * _MIB
    calls: int = 128
    watched: int = 100_000
    unsent_frames: int = 10_000
    unsent_bytes: int = 16 * _MIB
    unread_seconds: float = SILENCE_SECONDS
    refusal_seconds: float = 0.04

    def refusal_delay(self, refused: int, seconds: float) -> float:
        """Return for how many seconds a stream is not read after requests of it were refused.

        So refused requests take about half a percent of the server's time, and others do not wait.

        Args:
            refused: How many were refused.
            seconds: How long the server took to read and check the last one.
        """
        delay = max(refused * self.refusal_seconds, seconds / REFUSAL_SHARE)
        return min(delay, MAX_REFUSAL_SECONDS)
