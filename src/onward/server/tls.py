"""The certificates of a server, which can be read again while it runs."""

from __future__ import annotations

import asyncio
import signal
import ssl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import grpc

from onward.errors import BadInput
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Iterator


class CertificateFiles(NamedTuple):
    """Where the certificates are, as PEM files.

    Attributes:
        certificate: The certificate of the server, followed by those between it and its authority.
        key: Its private key, without a password.
        client_ca: The authority of clients; with it, only clients with a certificate may connect.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


def certificate_files(
    certificate: str | None, key: str | None, client_ca: str | None = None
) -> CertificateFiles | None:
    """Return the files that a user names; None: the server has no TLS.

    Raises:
        BadInput: one of them is missing.
    """
    if certificate is None and key is None:
        if client_ca is not None:
            raise BadInput("--client-ca", "needs TLS", "Pass --tls-cert and --tls-key as well")
        return None
    if certificate is None or key is None:
        missing = "--tls-cert" if certificate is None else "--tls-key"
        raise BadInput("TLS", "needs a certificate and its private key", f"Pass {missing} as well")
    ca = None if client_ca is None else Path(client_ca)
    return CertificateFiles(Path(certificate), Path(key), ca)


class Certificates:
    """The certificates of a server. New connections use the files as they were last read.

    Args:
        files: Where they are.

    Raises:
        BadInput: they cannot be read, or do not fit each other.
    """

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._configuration = _read(files)

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a gRPC server listens with; each handshake asks for the certificates."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration,
            lambda: self._configuration,
            require_client_authentication=self._files.client_ca is not None,
        )

    def reload(self) -> None:
        """Read the files again; if that fails, the server keeps what it has and logs the error."""
        try:
            self._configuration = _read(self._files)
        except BadInput as error:
            emit("server.certificates_kept", cause=error)
        else:
            emit("server.certificates_read", file=str(self._files.certificate))

    @contextmanager
    def reloaded_on_hangup(self) -> Iterator[None]:
        """Read the files again whenever the process receives SIGHUP, where that exists."""
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is None:
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(hangup, self.reload)
        try:
            yield
        finally:
            loop.remove_signal_handler(hangup)


def _read(files: CertificateFiles) -> grpc.ServerCertificateConfiguration:
    certificate = _text(files.certificate, "--tls-cert")
    key = _text(files.key, "--tls-key")
    authority = None if files.client_ca is None else _text(files.client_ca, "--client-ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # gRPC would accept anything here, and fail at every handshake.
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except _HasPassword:
        advice = "Pass a private key without a password"
        raise BadInput(f"--tls-key {files.key}", "has a password", advice) from None
    except ssl.SSLError as error:
        raise BadInput(
            f"certificate {files.certificate}",
            f"does not match the key {files.key}, or one of them is damaged ({_reason(error)})",
            "Pass a certificate and its private key as PEM files",
        ) from None
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except ssl.SSLError as error:
            raise BadInput(
                f"--client-ca {files.client_ca}",
                f"contains no CA certificate ({_reason(error)})",
                "Pass a PEM file",
            ) from None
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)


class _HasPassword(Exception):
    """A private key can be read only with a password."""


def _no_password() -> str:
    raise _HasPassword


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


def _text(file: Path, option: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{option} {file}", f"cannot be read ({error.strerror})", "Pass a readable PEM file"
        ) from None
