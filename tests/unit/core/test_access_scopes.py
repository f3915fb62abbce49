"""Scopes, roles, and what a principal may do."""

from __future__ import annotations

import pytest

from onward.core.access import (
    OPEN,
    POLL_ALL,
    ROLES,
    SCOPES,
    Principal,
    check_scope,
    open_principal,
    poll_scope,
    role_scopes,
    scope_problem,
)
from onward.errors import BadInput, Forbidden, NamespaceDisabled


def principal(*scopes: str, is_enabled: bool = True) -> Principal:
    return Principal("abc", "laptop", "shop", frozenset(scopes), is_enabled)


def test_the_scopes_are_those_of_the_design() -> None:
    assert " ".join(SCOPES) == (
        "run:read payload:read run:start signal:send event:publish run:control effect:resolve "
        "schedule:write queue:write pipeline:write worker:admin worker:poll:* ns:admin root"
    )


@pytest.mark.parametrize("role", ROLES)
def test_every_scope_of_a_role_exists(role: str) -> None:
    assert [scope for scope in role_scopes(role) if scope_problem(scope)] == []


def test_no_role_may_create_namespaces() -> None:
    assert [role for role, scopes in ROLES.items() if "root" in scopes] == []


def test_only_an_administrator_may_create_keys() -> None:
    assert [role for role, scopes in ROLES.items() if "ns:admin" in scopes] == ["admin"]


def test_a_viewer_sees_no_payloads() -> None:
    assert role_scopes("viewer") == {"run:read"}


@pytest.mark.parametrize("scope", ["", "run", "run:*", "worker:poll:", "worker:poll:a\nroot", "*"])
def test_what_is_no_scope_is_refused_with_those_that_exist(scope: str) -> None:
    with pytest.raises(BadInput, match="run:start"):
        check_scope(scope)


def test_an_unknown_role_is_refused_with_those_that_exist() -> None:
    with pytest.raises(BadInput, match="operator"):
        role_scopes("boss")


def test_a_scope_that_the_key_does_not_have_is_refused() -> None:
    assert principal("run:read").allows("run:read")
    assert not principal("run:read").allows("run:start")


def test_a_scope_that_does_not_exist_is_never_allowed() -> None:
    assert not OPEN.allows("run:everything")


def test_a_worker_polls_the_queues_of_its_key_alone() -> None:
    gpu = principal(poll_scope("gpu"))
    assert gpu.polls("gpu")
    assert gpu.allows("worker:poll:gpu")
    assert not gpu.polls("default")
    assert not gpu.allows(POLL_ALL)


def test_a_worker_for_all_queues_polls_any() -> None:
    assert principal(POLL_ALL).polls("gpu")
    assert principal(POLL_ALL).allows("worker:poll:gpu")


def test_a_queue_without_a_name_is_never_polled() -> None:
    assert not principal(POLL_ALL).polls("")


def test_a_queue_named_like_the_wildcard_needs_the_wildcard() -> None:
    assert not principal(poll_scope("gpu")).polls("*")


def test_a_refusal_names_the_key_and_the_missing_scope() -> None:
    with pytest.raises(Forbidden, match=r"'laptop' does not have the scope run:start"):
        principal("run:read").check("run:start")


@pytest.mark.parametrize("scope", ["run:start", "event:publish"])
def test_a_disabled_namespace_takes_nothing_new(scope: str) -> None:
    principal(scope).check(scope)
    with pytest.raises(NamespaceDisabled, match="'shop'"):
        principal(scope, is_enabled=False).check(scope)


@pytest.mark.parametrize("scope", sorted(set(SCOPES) - {"run:start", "event:publish"}))
def test_a_disabled_namespace_lets_runs_end(scope: str) -> None:
    principal(scope, is_enabled=False).check(scope)


def test_a_missing_scope_is_named_before_the_state_of_the_namespace() -> None:
    with pytest.raises(Forbidden):
        principal(is_enabled=False).check("run:start")


def test_an_administrator_grants_what_it_has_in_its_own_namespace() -> None:
    admin = principal(*role_scopes("admin"))
    assert admin.may_grant("shop", role_scopes("operator"))
    assert admin.may_grant("shop", [poll_scope("gpu")])
    assert not admin.may_grant("shop", ["root"])
    assert not admin.may_grant("bank", ["run:read"])


def test_an_administrator_with_few_scopes_grants_no_more() -> None:
    assert not principal("ns:admin", poll_scope("gpu")).may_grant("shop", [POLL_ALL])
    assert not principal("ns:admin").may_grant("shop", ["run:read"])


def test_root_grants_anything_but_reads_no_runs() -> None:
    root = principal("root")
    assert root.may_grant("bank", ["run:read", "root"])
    assert not root.allows("run:read")


def test_a_key_without_administration_grants_nothing() -> None:
    assert not principal("run:read").may_grant("shop", ["run:read"])


def test_an_open_server_allows_everything_in_the_namespace_named() -> None:
    assert OPEN.namespace == "default"
    mine = open_principal("mine")
    assert mine.namespace == "mine"
    assert all(mine.allows(scope) for scope in SCOPES)
    assert mine.polls("gpu")
