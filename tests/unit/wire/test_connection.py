"""Connections over real sockets: addresses in turn, keys, TLS, errors, and renewals in a thread."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
import trustme

from onward.engine.server_address import parse_server
from onward.errors import BadInput, NotFound, NotOpen, StoreUnusable, Unavailable
from onward.system.clock import SystemRandomness
from onward.wire import connection
from onward.wire.connection import Connection
from onward.wire.messages import messages
from onward.wire.problems import to_problem
from onward.wire.rpc import CALL, PROBLEM_METADATA, RENEW, WATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

KEY = "onw_abc"


class FakeServer:
    """Answers calls with their own arguments, or fails with `failure`."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}
        self.calls = 0
        self.failure: tuple[grpc.StatusCode, bytes | None] | None = None
        self.result: bytes | None = None
        """What calls and streams return instead of what they were sent."""
        self.port = 0
        self._server: Any = None

    async def start(
        self, port: int = 0, credentials: Any = None, options: Sequence[tuple[str, int]] = ()
    ) -> None:
        self._server = server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *options])
        handler: Any = grpc.method_handlers_generic_handler(
            "onward.v1.Engine",
            {
                "Call": grpc.unary_unary_rpc_method_handler(self._call),
                "Watch": grpc.stream_stream_rpc_method_handler(self._watch),
            },
        )
        renew: Any = grpc.method_handlers_generic_handler(
            "onward.v1.Workers", {"Renew": grpc.unary_unary_rpc_method_handler(self._renew)}
        )
        server.add_generic_rpc_handlers((handler, renew))
        address = f"localhost:{port}"
        if credentials is None:
            self.port = server.add_insecure_port(address)
        else:
            self.port = server.add_secure_port(address, credentials)
        await server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _call(self, data: bytes, context: Any) -> bytes:
        self.calls += 1
        self.metadata = dict(context.invocation_metadata())
        if self.failure is not None:
            code, problem = self.failure
            metadata = () if problem is None else ((PROBLEM_METADATA, problem),)
            await context.abort(code, "no", metadata)
        request = messages.CallRequest.FromString(data)
        result = request.arguments if self.result is None else self.result
        reply: bytes = messages.CallReply(result=result).SerializeToString()
        return reply

    async def _watch(self, _: Any, context: Any) -> None:
        while (data := await context.read()) is not getattr(grpc.aio, "EOF"):  # noqa: B009
            if data == b"break":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            await context.write(data if self.result is None else self.result)

    async def _renew(self, data: bytes, context: Any) -> bytes:
        reply: bytes = messages.RenewReply(is_kept=True).SerializeToString()
        return reply


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[FakeServer]:
    server = FakeServer()
    await server.start(**options)
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def connected(url: str, key: str | None = None, namespace: str = "") -> Any:
    made = Connection(parse_server(url), key, namespace, SystemRandomness())
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def call(made: Connection, **options: Any) -> Any:
    return made.call(CALL, messages.CallRequest(operation="echo", arguments=b"1"), **options)


async def test_a_call_carries_the_key_and_the_namespace() -> None:
    async with served() as server:
        url = f"onward://localhost:{server.port}"
        async with connected(url, KEY, "shop") as made:
            assert (await call(made)).result == b"1"
        assert server.metadata["authorization"] == f"Bearer {KEY}"
        assert server.metadata["onward-namespace"] == "shop"


async def test_without_them_it_carries_none() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        await call(made)
        assert not {"authorization", "onward-namespace"} & server.metadata.keys()


async def test_an_address_where_nothing_listens_is_passed_over() -> None:
    async with served() as dead, served() as server:
        await dead.stop()
        url = f"onward://localhost:{dead.port},localhost:{server.port}"
        async with connected(url) as made:
            await call(made)
        assert server.calls == 1


async def test_the_next_server_is_used_when_the_first_one_dies() -> None:
    async with served() as first, served() as second:
        url = f"onward://localhost:{first.port},localhost:{second.port}"
        async with connected(url) as made:
            await call(made)
            await first.stop()
            await call(made, repeats=True)
        assert (first.calls, second.calls) == (1, 1)


async def test_a_server_that_restarts_is_found_again() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        await call(made)
        await server.stop()
        # Repeated, because it may be sent before the client notices that the server has stopped.
        calling = asyncio.ensure_future(call(made, repeats=True))
        await server.start(server.port)
        assert (await calling).result == b"1"


async def test_if_no_server_can_be_reached_a_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.2)
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        await server.stop()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await call(made, repeats=True)
    with pytest.raises(Unavailable, match=f"onward://localhost:{server.port} cannot be reached"):
        async with connected(f"onward://localhost:{server.port}"):
            pass


async def test_what_is_not_safe_to_repeat_is_sent_once() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        server.failure = (grpc.StatusCode.UNAVAILABLE, None)
        with pytest.raises(Unavailable):
            await call(made)
        assert server.calls == 1
        with pytest.raises(Unavailable):
            await call(made, repeats=True)
        assert server.calls == 3


async def test_the_problem_of_a_call_arrives_as_the_error_that_it_is() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        problem = to_problem(NotFound("run", "r1", "shop")).SerializeToString()
        server.failure = (grpc.StatusCode.NOT_FOUND, problem)
        with pytest.raises(NotFound):
            await call(made)


async def test_a_refusal_without_a_problem_is_no_outage() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        server.failure = (grpc.StatusCode.UNAUTHENTICATED, None)
        with pytest.raises(StoreUnusable, match="UNAUTHENTICATED"):
            await call(made)


async def test_a_stream_carries_frames_both_ways_and_its_end() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        stream = await made.stream(WATCH.path)
        for data in (b"one", b"two"):
            await stream.write(data)
            assert await stream.read() == data
        await stream.end()
        assert await stream.read() is None


async def test_a_stream_that_breaks_is_unavailable() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:
        stream = await made.stream(WATCH.path)
        await stream.write(b"break")
        with pytest.raises(Unavailable, match="the connection broke"):
            await stream.read()


async def test_a_lease_is_renewed_from_a_thread_while_the_loop_is_blocked() -> None:
    async with served() as server, connected(f"onward://localhost:{server.port}") as made:

        async def renew() -> bool:
            async with made.renewals() as renewing:
                reply = await renewing(RENEW, messages.RenewRequest(worker="w1"), 5.0)
                return bool(reply.is_kept)

        assert await asyncio.to_thread(lambda: asyncio.run(renew()))
        assert await renew()


class Certified:
    """An authority, and a server's credentials for a host of a name."""

    def __init__(self, folder: Path, name: str = "localhost", **lasting: Any) -> None:
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        leaf = self.authority.issue_cert(name, **lasting)
        self.pair = (leaf.private_key_pem.bytes(), leaf.cert_chain_pems[0].bytes())
        self.credentials = grpc.ssl_server_credentials([self.pair])


async def why_not(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is said of a server that cannot be reached."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(Unavailable) as refusal:
        async with connected(url):
            pass
    return str(refusal.value)


async def test_a_connection_that_cannot_be_made_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified = Certified(tmp_path)
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    (tmp_path / "junk.pem").write_text("no certificate")
    async with served(credentials=certified.credentials) as server:
        secure = f"onward://localhost:{server.port}"
        assert "If the server uses TLS" in await why_not(secure, monkeypatch)
        said = await why_not(f"{secure}?ca={tmp_path}/other.pem", monkeypatch)
        assert "its certificate is not trusted. Add its certificate authority" in said
        said = await why_not(f"{secure}?ca={tmp_path}/junk.pem", monkeypatch)
        assert "the ca or cert file is not in PEM format" in said
        wrong = f"onward://127.0.0.1:{server.port}?ca={certified.ca}"
        assert "its certificate is for another host name" in await why_not(wrong, monkeypatch)
    async with served() as server:
        plain = f"onward://localhost:{server.port}?ca={certified.ca}"
        assert "it does not use TLS" in await why_not(plain, monkeypatch)
    gone = f"onward://localhost:{server.port}"
    said = await why_not(gone, monkeypatch)
    assert said == f"{gone} cannot be reached: connection refused. " + (
        "Check that the server is running, and check the port."
    )


async def test_a_certificate_that_has_expired_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    certified = Certified(tmp_path, not_before=past - timedelta(days=1), not_after=past)
    async with served(credentials=certified.credentials) as server:
        url = f"onward://localhost:{server.port}?ca={certified.ca}"
        assert "its certificate has expired" in await why_not(url, monkeypatch)


async def test_a_server_that_asks_for_a_certificate_gets_the_one_of_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified, clients = Certified(tmp_path), trustme.CA()
    clients.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(tmp_path / "me.pem")
    credentials = grpc.ssl_server_credentials(
        [certified.pair], clients.cert_pem.bytes(), require_client_auth=True
    )
    async with served(credentials=credentials) as server:
        url = f"onward://localhost:{server.port}?ca={certified.ca}"
        assert "?cert=FILE" in await why_not(url, monkeypatch)
        async with connected(f"{url}&cert={tmp_path}/me.pem") as made:
            assert (await call(made)).result == b"1"


async def test_a_key_may_end_in_a_newline_and_one_that_is_malformed_is_not_quoted() -> None:
    async with served() as server:
        async with connected(f"onward://localhost:{server.port}", f"{KEY}\n") as made:
            await call(made)
        assert server.metadata["authorization"] == f"Bearer {KEY}"
    for key in (f"{KEY}\n{KEY}", f"{KEY}ä", " "):
        with pytest.raises(BadInput, match="the API key is malformed") as refusal:
            Connection(parse_server("onward://localhost"), key, "", SystemRandomness())
        assert KEY not in str(refusal.value)


async def test_a_server_with_a_certificate_of_ones_own_authority_is_trusted_by_ca(
    tmp_path: Path,
) -> None:
    async with served(credentials=Certified(tmp_path).credentials) as server:
        async with connected(f"onward://localhost:{server.port}?ca={tmp_path}/ca.pem", KEY) as made:
            assert (await call(made)).result == b"1"
        trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
        with pytest.raises(Unavailable):
            async with connected(f"onward://localhost:{server.port}?ca={tmp_path}/other.pem"):
                pass


async def test_a_ca_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"missing\.pem"):
        async with connected(f"onward://localhost:1?ca={tmp_path}/missing.pem"):
            pass


async def test_a_connection_that_is_not_open_makes_no_calls() -> None:
    made = Connection(parse_server("onward://localhost"), None, "", SystemRandomness())
    with pytest.raises(NotOpen):
        await call(made)
