"""Messages that no server or no client takes: only the call or frame itself fails, and for good."""

from __future__ import annotations

import pytest

from onward.errors import PayloadTooLarge, Unavailable
from onward.wire.messages import messages
from onward.wire.rpc import CALL, MAX_MESSAGE_BYTES, WATCH
from tests.unit.wire.test_connection import FakeServer, call, connected, served


def echo(size: int) -> object:
    return messages.CallRequest(operation="echo", arguments=b"x" * size)


def address(server: FakeServer) -> str:
    return f"onward://localhost:{server.port}"


async def test_a_request_that_no_server_takes_is_not_sent() -> None:
    async with served() as server, connected(address(server)) as made:
        with pytest.raises(
            PayloadTooLarge, match=r"the request echo is 16,777,2.* bytes"
        ) as refusal:
            await made.call(CALL, echo(MAX_MESSAGE_BYTES), repeats=True)
        assert refusal.value.max_bytes == MAX_MESSAGE_BYTES
        assert server.calls == 0
        assert (await call(made)).result == b"1"


async def test_a_request_that_this_server_does_not_take_is_sent_once() -> None:
    options = [("grpc.max_receive_message_length", 10_000)]
    async with served(options=options) as server, connected(address(server)) as made:
        with pytest.raises(PayloadTooLarge, match="the limit is 10,000"):
            await made.call(CALL, echo(20_000), repeats=True)
        assert (await call(made)).result == b"1"
        assert server.calls == 1


async def test_a_reply_of_64_mib_arrives_and_a_larger_one_is_a_final_error() -> None:
    async with served() as server, connected(address(server)) as made:
        server.result = b"x" * (64 * 1024 * 1024 - 100)
        assert (await call(made)).result == server.result
        server.result += b"x" * 200
        server.calls = 0
        with pytest.raises(PayloadTooLarge, match=r"or its result,.*the limit is 67,108,864"):
            await call(made, repeats=True)
        assert server.calls == 1


async def test_a_frame_that_this_server_does_not_take_is_refused_on_the_next_stream() -> None:
    options = [("grpc.max_receive_message_length", 10_000)]
    async with served(options=options) as server, connected(address(server)) as made:
        stream = await made.stream(WATCH.path)
        await stream.write(b"x" * 20_000)
        with pytest.raises(Unavailable, match="does not accept messages of more than 10,000 bytes"):
            await stream.read()
        stream = await made.stream(WATCH.path)
        with pytest.raises(PayloadTooLarge, match="the limit is 10,000"):
            await stream.write(b"x" * 20_000)
        await stream.write(b"small")
        assert await stream.read() == b"small"
        stream.cancel()


async def test_a_response_that_is_too_large_does_not_limit_what_is_sent() -> None:
    options = [("grpc.max_send_message_length", 10_000)]
    async with served(options=options) as server, connected(address(server)) as made:
        server.result = b"x" * 20_000
        stream = await made.stream(WATCH.path)
        await stream.write(b"small")
        with pytest.raises(PayloadTooLarge):
            await stream.read()
        assert made.max_bytes == MAX_MESSAGE_BYTES
