"""Flow control: how many runs of a queue, a workflow or a key may run, and in which order.

A run is under the limits of its queue, of its workflow and of its key at once. The functions here
decide which of the runs that could be claimed are claimed; a store counts and remembers.
"""

from onward.core.flow.choice import (
    BEGUN,
    CHILD,
    NEW,
    Candidate,
    KeyLine,
    Turn,
    choose,
    left_after,
    rank,
    served,
)
from onward.core.flow.limits import FlowId, FlowKind, FlowLimits, Hold, Room, Rooms, room_of, take
from onward.core.flow.rate import (
    MAX_INTERVAL,
    Rate,
    Starts,
    next_start,
    read_rate,
    record_starts,
    starts_left,
)

__all__ = [
    "BEGUN",
    "CHILD",
    "MAX_INTERVAL",
    "NEW",
    "Candidate",
    "FlowId",
    "FlowKind",
    "FlowLimits",
    "Hold",
    "KeyLine",
    "Rate",
    "Room",
    "Rooms",
    "Starts",
    "Turn",
    "choose",
    "left_after",
    "next_start",
    "rank",
    "read_rate",
    "record_starts",
    "room_of",
    "served",
    "starts_left",
    "take",
]
