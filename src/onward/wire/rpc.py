"""The methods of the services."""

from __future__ import annotations

from typing import Any, NamedTuple

from onward.wire.messages import messages

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The size of a message that a client sends."""

MAX_REPLY_BYTES = 64 * 1024 * 1024
"""The size of a message that a server sends. Only a row that cannot be divided needs so much."""

MAX_COMMIT_BYTES = 8 * 1024 * 1024
"""What a server takes of payloads in one commit."""

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""What a sender puts into one message, if it can be divided."""

PROBLEM_METADATA = "onward-problem-bin"
"""The trailing metadata of a call that failed: its `Problem`."""


class Rpc(NamedTuple):
    """One method of a service."""

    path: str
    request: Any
    reply: Any

    def of(self, channel: Any, kind: str = "unary_unary") -> Any:
        """Return the method as a function on a channel."""
        return getattr(channel, kind)(
            self.path,
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.reply.FromString,
        )


WORK = Rpc("/onward.v1.Workers/Work", messages.Request, messages.Response)
RENEW = Rpc("/onward.v1.Workers/Renew", messages.RenewRequest, messages.RenewReply)
RELEASE_OTHERS = Rpc(
    "/onward.v1.Workers/ReleaseOthers", messages.ReleaseOthersRequest, messages.ReleaseOthersReply
)
NOTE_BLOCKED = Rpc(
    "/onward.v1.Workers/NoteBlocked", messages.NoteBlockedRequest, messages.NoteBlockedReply
)
CALL = Rpc("/onward.v1.Engine/Call", messages.CallRequest, messages.CallReply)
WATCH = Rpc("/onward.v1.Engine/Watch", messages.WatchRequest, messages.WatchReply)
