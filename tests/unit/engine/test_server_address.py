"""Addresses of servers: what is understood, what is refused, and that no key is shown."""

from pathlib import Path

import pytest

from onward.engine.address import masked, resolved
from onward.engine.server_address import ServerAddress, is_server, parse_server
from onward.errors import BadStoreUrl


@pytest.mark.parametrize(
    ("url", "targets", "uses_tls"),
    [
        ("onward://localhost", ("localhost:7170",), False),
        ("onward://localhost:80", ("localhost:80",), False),
        ("onward://127.0.0.1", ("127.0.0.1:7170",), False),
        ("onward://[::1]:7171", ("[::1]:7171",), False),
        ("onward://[::1]", ("[::1]:7170",), False),
        ("onward://shop.example", ("shop.example:7170",), True),
        ("onward://10.0.0.1:1", ("10.0.0.1:1",), True),
        ("onward://a.example,b.example:9", ("a.example:7170", "b.example:9"), True),
        ("onward://localhost,b.example", ("localhost:7170", "b.example:7170"), True),
        ("ONWARD://localhost/", ("localhost:7170",), False),
    ],
)
def test_an_address_names_hosts_and_uses_tls_unless_all_are_this_machine(
    url: str, targets: tuple[str, ...], uses_tls: bool
) -> None:
    assert is_server(url)
    assert parse_server(url) == ServerAddress(targets, uses_tls)


def test_a_certificate_authority_makes_it_use_tls_on_this_machine_too() -> None:
    address = parse_server("onward://localhost?ca=/etc/ca.pem")
    assert address == ServerAddress(("localhost:7170",), uses_tls=True, ca=Path("/etc/ca.pem"))
    assert parse_server(str(address)) == address


def test_a_certificate_of_the_client_makes_it_use_tls_too() -> None:
    address = parse_server("onward://localhost?ca=/etc/ca.pem&cert=/etc/me.pem")
    files = {"ca": Path("/etc/ca.pem"), "cert": Path("/etc/me.pem")}
    assert address == ServerAddress(("localhost:7170",), uses_tls=True, **files)
    assert parse_server(str(address)) == address


def test_a_file_in_a_settings_file_is_beside_it() -> None:
    assert resolved("onward://a?ca=ca.pem", Path("/srv")) == "onward://a:7170?ca=/srv/ca.pem"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("onward://onw_secret@host", "ONWARD_KEY"),
        ("onward://user:onw_secret@host", "ONWARD_KEY"),
        ("onward://host?key=onw_secret", "App(key=...)"),
        ("onward://host?cacert=/ca.pem", "unknown option 'cacert'; the options are ca and cert."),
        (
            f"onward://host?onw_secret{'x' * 20}",
            "has an unknown option; the options are ca and cert.",
        ),
        ("onward://host/onw_secret", "path"),
        ("onward://", "has no host"),
        ("onward://host,,other", "has no host"),
        ("onward://host:port", "port that is not a number"),
        ("onward://host?ca=", "an empty ca option"),
        ("onward://host#onw_secret", "after the host"),
    ],
)
def test_what_is_no_address_is_refused_and_a_key_in_it_is_not_shown(url: str, said: str) -> None:
    with pytest.raises(BadStoreUrl) as refusal:
        parse_server(url)
    assert said in str(refusal.value)
    assert "onw_secret" not in str(refusal.value) + repr(refusal.value)
    assert "onw_secret" not in masked(url)


@pytest.mark.parametrize("url", ["onward.db", "onward:", ":memory:", "postgresql://onward", None])
def test_an_address_of_a_database_is_none(url: object) -> None:
    assert not is_server(url)
