"""Where a server may listen, and what it needs for that."""

from __future__ import annotations

import pytest

from onward.errors import BadInput
from onward.server.binding import Protection, check_binding, is_loopback, may_be_open

LOOPBACK = ["127.0.0.1:7170", "127.0.0.2:0", "[::1]:7170", "localhost:7170", "LOCALHOST:7170"]
BEYOND = ["0.0.0.0:7170", "[::]:7170", "10.0.0.5:7170", "onward.example:7170", ":7170", "7170"]


@pytest.mark.parametrize("address", [*LOOPBACK, "unix:/run/onward.sock"])
def test_a_server_listens_on_loopback_without_anything(address: str) -> None:
    assert is_loopback(address)
    assert may_be_open(address)
    check_binding(address, Protection())


@pytest.mark.parametrize("address", [*BEYOND, "localhost.example:7170", "127.0.0.1.example:7170"])
def test_other_addresses_need_keys(address: str) -> None:
    assert not is_loopback(address)
    assert not may_be_open(address)
    for protection in (Protection(), Protection(has_tls=True), Protection(behind_proxy=True)):
        with pytest.raises(BadInput, match="onward keys create"):
            check_binding(address, protection)


@pytest.mark.parametrize("address", BEYOND)
def test_other_addresses_need_tls_or_a_proxy(address: str) -> None:
    with pytest.raises(BadInput, match="--tls-cert and --tls-key, or --behind-proxy") as refused:
        check_binding(address, Protection(has_keys=True))
    assert address in str(refused.value)
    check_binding(address, Protection(has_keys=True, has_tls=True))
    check_binding(address, Protection(has_keys=True, behind_proxy=True))


def test_behind_a_proxy_keys_are_needed_even_on_loopback() -> None:
    assert not may_be_open("127.0.0.1:7170", behind_proxy=True)
    with pytest.raises(BadInput, match="no API keys"):
        check_binding("127.0.0.1:7170", Protection(behind_proxy=True))
    check_binding("127.0.0.1:7170", Protection(has_keys=True, behind_proxy=True))
