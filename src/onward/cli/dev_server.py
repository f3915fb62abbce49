"""The server of `onward dev`: other programs of the machine reach the App's database through it."""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self

from onward.cli.keys import PEPPER
from onward.cli.server import DEFAULT_ADDRESS, server_class
from onward.engine.server_address import is_server
from onward.errors import BadInput, OnwardError
from onward.server.binding import check_address, is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from onward.cli.output import Output
    from onward.server.process import OnwardServer

FREE_PORT = "127.0.0.1:0"


class DevServer:
    """A server on the loopback interface. Use it with `async with`.

    Args:
        out: Where to print its address.
        address: Where to listen; None: the usual address, or a free port if that is in use.

    Raises:
        BadInput: the address is in use, other machines can reach it, or grpcio is not installed.
    """

    def __init__(self, out: Output, address: str | None) -> None:
        self._out = out
        self._address = None if address is None else _checked(address)
        self._kind: type[OnwardServer] | None = None
        self._url: str | None = None
        self._stack = AsyncExitStack()
        try:
            self._kind = server_class()
        except BadInput as error:
            if address is not None:
                raise
            out.note(f"Running only the worker: {error}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def serving(self, url: str) -> AsyncIterator[None]:
        """Enter with a server for a database."""
        async with self:
            await self.serve(url)
            yield

    async def serve(self, url: str) -> None:
        """Serve a database. If it is the same as before, nothing changes.

        If it is another one, the server is replaced by one at the same address.
        """
        if self._kind is None or url == self._url:
            return
        await self._stack.aclose()
        self._url = url
        if is_server(url):
            self._out.note(
                "Running only the worker: the App connects to a server, and so does the worker. "
                "To run a server here, pass --db with a file."
            )
            return
        if self._address is None:
            self._address = _usual_address(self._out)
        try:
            # The worker deletes old runs as its App says.
            made = self._kind(url, grpc=self._address, pepper=os.environ.get(PEPPER), keep=None)
            server = await self._stack.enter_async_context(made)
        except OnwardError as error:
            self._url = None  # the next worker tries it again
            self._out.complain(error)
            return
        self._address = server.address
        shown = server.address.replace("127.0.0.1:", "localhost:")
        self._out.done(
            {"address": server.address, "database": server.where, "server": server.name},
            f"Listening on onward://{shown}",
        )


def _usual_address(out: Output) -> str:
    if _is_free(DEFAULT_ADDRESS):
        return DEFAULT_ADDRESS
    out.note(f"{DEFAULT_ADDRESS} is in use; the server listens on a free port instead.")
    return FREE_PORT


def _checked(address: str) -> str:
    check_address(address)
    if not is_loopback(address):
        raise BadInput(
            f"address {address}",
            "can be reached from other machines, but this server is meant for a single machine",
            "Listen on 127.0.0.1, or use onward server",
        )
    if not _is_free(address):
        raise BadInput(f"address {address}", "is in use", "Choose another address with --grpc")
    return address


def _is_free(address: str) -> bool:
    if address.startswith("unix:"):
        return True  # the server says if it is not
    host, _, port = address.rpartition(":")
    [place, *_] = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    with socket.socket(*place[:3]) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place[4])
        except OSError:
            return False
    return True
