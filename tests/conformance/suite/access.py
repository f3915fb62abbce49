"""Namespaces and API keys: what is stored of them, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import DAY, HOUR, MINUTE
from onward.model.access import NewApiKey
from onward.store import access

if TYPE_CHECKING:
    from onward.store import Store
    from tests.conformance.suite.world import World

KEY = NewApiKey("aaaaaaaaaaaa", "shop", "laptop", "run:read\nrun:start", "sha256:1", "cli")


async def a_shop(world: World) -> Store:
    store = await world.store()
    assert await access.add_namespace(store, "shop", "The shop")
    return store


async def test_a_namespace_is_made_once(world: World) -> None:
    store = await a_shop(world)
    assert not await access.add_namespace(store, "shop", "Another shop")
    found = await access.namespace(store, "shop")
    assert found is not None
    assert (found.name, found.title, found.enabled) == ("shop", "The shop", 1)
    assert await access.namespace(store, "bank") is None


async def test_namespaces_are_listed_by_pages(world: World) -> None:
    store = await a_shop(world)
    await access.add_namespace(store, "bank", "")
    first = await access.list_namespaces(store, limit=1)
    then = await access.list_namespaces(store, limit=9, after=first[-1].name)
    assert [row.name for row in (*first, *then)] == ["bank", "shop"]


async def test_a_namespace_is_disabled_and_enabled(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY)
    disabled = await access.enable_namespace(store, "shop", enabled=False)
    assert disabled is not None
    assert not disabled.enabled
    assert not (await access.keys(store, [KEY.id]))[KEY.id].is_enabled
    await access.enable_namespace(store, "shop", enabled=True)
    assert (await access.keys(store, [KEY.id]))[KEY.id].is_enabled
    assert await access.enable_namespace(store, "bank", enabled=True) is None


async def test_a_key_is_found_from_any_namespace(world: World) -> None:
    store = await a_shop(world)
    added = await access.add_key(store, KEY)
    elsewhere = await world.store("elsewhere")
    found = (await access.keys(elsewhere, [KEY.id, "bbbbbbbbbbbb"]))[KEY.id]
    assert added is not None
    assert found.row == added.row
    assert (found.row.namespace, found.row.scopes) == ("shop", "run:read\nrun:start")
    assert (found.secret_hash, found.is_valid) == ("sha256:1", True)
    assert await access.has_keys(elsewhere)


async def test_a_key_needs_a_namespace(world: World) -> None:
    store = await a_shop(world)
    assert await access.add_key(store, KEY._replace(namespace="bank")) is None
    assert not await access.has_keys(store)


async def test_a_key_is_stored_again_without_harm(world: World) -> None:
    store = await a_shop(world)
    first = await access.add_key(store, KEY)
    again = await access.add_key(store, KEY)
    assert first is not None
    assert again is not None
    assert first.row == again.row


async def test_an_id_is_never_given_to_another_key(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY)
    assert await access.add_key(store, KEY._replace(secret_hash="sha256:2")) is None
    assert (await access.keys(store, [KEY.id]))[KEY.id].secret_hash == "sha256:1"


async def test_a_key_expires(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY._replace(expires_in=HOUR))
    key = (await access.keys(store, [KEY.id]))[KEY.id]
    expires_at = key.row.expires_at
    assert expires_at == key.row.created_at + HOUR
    assert key.row.is_valid(expires_at - 1)
    assert not key.row.is_valid(expires_at)


async def test_a_revoked_key_stays_revoked_from_the_first_time(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY)
    first = await access.revoke_key(store, KEY.id)
    again = await access.revoke_key(store, KEY.id)
    assert first is not None
    assert again is not None
    assert not first.is_valid
    assert first.row.revoked_at == again.row.revoked_at
    assert await access.has_keys(store)
    assert await access.revoke_key(store, "bbbbbbbbbbbb") is None


async def test_a_replaced_key_expires_and_never_later_than_it_would_have(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY)
    second = KEY._replace(id="bbbbbbbbbbbb", expires_in=MINUTE)
    await access.add_key(store, second, replaces=KEY.id, within=HOUR)
    third = KEY._replace(id="cccccccccccc")
    await access.add_key(store, third, replaces=second.id, within=DAY)
    found = await access.keys(store, [KEY.id, second.id, third.id])
    assert found[KEY.id].row.expires_at is not None
    expires_at = found[second.id].row.expires_at
    assert expires_at == found[second.id].row.created_at + MINUTE
    assert found[third.id].row.expires_at is None


async def test_nothing_expires_for_a_key_that_was_not_stored(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY)
    stray = KEY._replace(id="bbbbbbbbbbbb", namespace="bank")
    assert await access.add_key(store, stray, replaces=KEY.id) is None
    assert (await access.keys(store, [KEY.id]))[KEY.id].row.expires_at is None


async def test_the_use_of_a_key_is_noted_coarsely(world: World) -> None:
    store = await a_shop(world)
    await access.add_key(store, KEY)
    await access.note_key_use(store, KEY.id, HOUR)
    first = (await access.keys(store, [KEY.id]))[KEY.id].row.last_used_at
    assert first is not None
    await access.note_key_use(store, KEY.id, HOUR)
    assert (await access.keys(store, [KEY.id]))[KEY.id].row.last_used_at == first


async def test_keys_are_listed_by_namespace_and_by_pages(world: World) -> None:
    store = await a_shop(world)
    await access.add_namespace(store, "bank", "")
    await access.add_key(store, KEY)
    await access.add_key(store, KEY._replace(id="bbbbbbbbbbbb", namespace="bank"))
    await access.add_key(store, KEY._replace(id="cccccccccccc"))
    mine = await access.list_keys(store, "shop", limit=9)
    assert [row.id for row in mine] == ["aaaaaaaaaaaa", "cccccccccccc"]
    all_keys = await access.list_keys(store, None, limit=2)
    all_keys += await access.list_keys(store, None, limit=2, after=all_keys[-1].id)
    assert [row.namespace for row in all_keys] == ["shop", "bank", "shop"]


async def test_an_app_alone_makes_no_rows_for_access(world: World) -> None:
    store = await world.store()
    assert await access.list_namespaces(store, limit=9) == []
    assert not await access.has_keys(store)
