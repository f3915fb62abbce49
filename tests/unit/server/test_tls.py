"""Certificates of a server: read, checked, and read again while it runs."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import grpc
import grpc.aio
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from onward.errors import BadInput
from onward.server.tls import CertificateFiles, Certificates, certificate_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Issued(NamedTuple):
    """An authority, and the files of a server that has a certificate of it."""

    authority: trustme.CA
    files: CertificateFiles

    def reissue(self) -> None:
        """Replace the certificate and the key by new ones."""
        leaf = self.authority.issue_cert("localhost")
        leaf.cert_chain_pems[0].write_to_path(self.files.certificate)
        leaf.private_key_pem.write_to_path(self.files.key)


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    files = CertificateFiles(tmp_path / "server.pem", tmp_path / "server.key")
    made = Issued(trustme.CA(), files)
    made.reissue()
    return made


@asynccontextmanager
async def listening(certificates: Certificates) -> AsyncIterator[int]:
    """Listen on a free port, without any service."""
    server = grpc.aio.server()
    port = server.add_secure_port("localhost:0", certificates.credentials())
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def serial_of(port: int, trusted: ssl.SSLContext) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection("localhost", port, ssl=trusted)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return int(certificate["serialNumber"], 16)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    authority.configure_trust(context)
    return context


async def test_new_connections_get_the_certificate_that_was_read_last(issued: Issued) -> None:
    certificates = Certificates(issued.files)
    trusted = trusting(issued.authority)
    async with listening(certificates) as port:
        first = await serial_of(port, trusted)
        issued.reissue()
        assert await serial_of(port, trusted) == first
        certificates.reload()
        assert await serial_of(port, trusted) != first


async def test_a_hangup_reads_the_certificates_again(issued: Issued) -> None:
    certificates = Certificates(issued.files)
    trusted = trusting(issued.authority)
    async with listening(certificates) as port:
        with certificates.reloaded_on_hangup():
            first = await serial_of(port, trusted)
            issued.reissue()
            os.kill(os.getpid(), signal.SIGHUP)
            while await serial_of(port, trusted) == first:
                pass  # the signal arrives between two connections


async def test_a_certificate_that_cannot_be_read_again_is_kept(
    issued: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(issued.files)
    trusted = trusting(issued.authority)
    async with listening(certificates) as port:
        first = await serial_of(port, trusted)
        issued.files.key.write_text("no key at all")
        certificates.reload()
        assert await serial_of(port, trusted) == first
    assert "server.certificates_kept" in caplog.text
    assert "no key at all" not in caplog.text


async def test_only_clients_with_a_certificate_connect_where_there_is_an_authority(
    issued: Issued, tmp_path: Path
) -> None:
    clients = trustme.CA()
    clients.cert_pem.write_to_path(tmp_path / "clients.pem")
    certificates = Certificates(issued.files._replace(client_ca=tmp_path / "clients.pem"))
    async with listening(certificates) as port:
        roots = issued.authority.cert_pem.bytes()
        assert not await connects(port, grpc.ssl_channel_credentials(roots))
        leaf = clients.issue_cert("client")
        key, chain = leaf.private_key_pem.bytes(), leaf.cert_chain_pems[0].bytes()
        assert await connects(port, grpc.ssl_channel_credentials(roots, key, chain))


async def connects(port: int, credentials: grpc.ChannelCredentials) -> bool:
    """Return whether a client with these credentials can connect."""
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        while True:
            state = channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.READY:
                return True
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                return False
            await channel.wait_for_state_change(state)


def test_a_key_of_another_certificate_is_refused(issued: Issued) -> None:
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(issued.files.key)
    with pytest.raises(BadInput, match="does not match the key"):
        Certificates(issued.files)


def test_a_key_with_a_password_is_refused(issued: Issued) -> None:
    key = load_pem_private_key(issued.files.key.read_bytes(), None)
    locked = BestAvailableEncryption(b"secret")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    issued.files.key.write_bytes(pem)
    with pytest.raises(BadInput, match=r"has a password\. Pass a private key without a password"):
        Certificates(issued.files)


def test_files_that_are_damaged_are_refused(issued: Issued, tmp_path: Path) -> None:
    (tmp_path / "clients.pem").write_text("nothing")
    with pytest.raises(BadInput, match="--client-ca"):
        Certificates(issued.files._replace(client_ca=tmp_path / "clients.pem"))
    issued.files.certificate.write_text("nothing")
    with pytest.raises(BadInput, match="is damaged"):
        Certificates(issued.files)


@pytest.mark.parametrize("name", ["certificate", "key", "client_ca"])
def test_a_file_that_is_missing_is_named(issued: Issued, name: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(BadInput, match=r"missing\.pem cannot be read"):
        Certificates(issued.files._replace(**{name: missing}))


def test_a_certificate_needs_its_key_and_a_key_its_certificate() -> None:
    assert certificate_files(None, None) is None
    files = certificate_files("a.pem", "a.key", "ca.pem")
    assert files is not None
    assert [file and file.name for file in files] == ["a.pem", "a.key", "ca.pem"]
    with pytest.raises(BadInput, match="Pass --tls-key"):
        certificate_files("a.pem", None)
    with pytest.raises(BadInput, match="Pass --tls-cert"):
        certificate_files(None, "a.key")
    with pytest.raises(BadInput, match="--client-ca needs TLS"):
        certificate_files(None, None, "ca.pem")
