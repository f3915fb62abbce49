"""A worker in Node, and a server with TLS that asks for certificates of its clients."""

import asyncio
import os
from pathlib import Path

import trustme

from onward.server.process import OnwardServer
from onward.server.tls import CertificateFiles

SECONDS = 30


async def first_event(client: Path, url: str) -> str:
    """Return what a worker writes to stderr until its first event about its connection."""
    process = await asyncio.create_subprocess_exec(
        "node",
        str(client / "programs" / "live_worker.js"),
        env=os.environ | {"ONWARD_URL": url, "VERBOSE": "1"},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(SECONDS):
            while "worker." not in said:
                line = (await process.stderr.readline()).decode()
                assert line, said
                said += line
            # Node prints warnings a little later.
            process.terminate()
            said += (await process.stderr.read()).decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return said


async def connect_with_and_without(client: Path, folder: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    server_files = CertificateFiles(folder / "server.pem", folder / "server.key", folder / "ca.pem")
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    leaf.cert_chain_pems[0].write_to_path(server_files.certificate)
    leaf.private_key_pem.write_to_path(server_files.key)
    own = authority.issue_cert("worker.example.com")
    own.private_key_and_cert_chain_pem.write_to_path(folder / "worker.pem")
    url = str(folder / "onward.db")
    async with OnwardServer(url, grpc="127.0.0.1:0", tls=server_files) as server:
        address = f"onward://{server.address}"
        trusted = f"{address}?ca={folder / 'ca.pem'}"
        said = await first_event(client, f"{trusted}&cert={folder / 'worker.pem'}")
        assert "worker.ready" in said
        assert "DEP0123" not in said  # an IP address is no server name
        named = trusted.replace("127.0.0.1", "localhost")
        assert "worker.ready" in await first_event(client, f"{named}&cert={folder / 'worker.pem'}")
        assert "worker.disconnected" in await first_event(client, trusted)
        untrusted = await first_event(client, f"{address}?cert={folder / 'worker.pem'}")
        assert "certificate" in untrusted
        assert "worker.ready" not in untrusted


def test_a_node_worker_shows_its_certificate(client: Path | None, tmp_path: Path) -> None:
    if client is not None:
        asyncio.run(connect_with_and_without(client, tmp_path))
