"""Namespaces and keys: created, listed, disabled, revoked and rotated."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from onward.core.access import is_secret_of, make_key, parse_key
from onward.core.instant import DAY, HOUR
from onward.engine.access.administration import Administration
from onward.errors import BadInput, NotFound
from onward.store import access, open_store
from onward.testing.clock import VirtualClock
from onward.testing.randomness import SeededRandomness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.store import Store


class Office:
    """An administration over an empty database, and its clock."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.admin = Administration(store, randomness=SeededRandomness(1))


@asynccontextmanager
async def an_office() -> AsyncIterator[Office]:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        yield Office(store, clock)


async def test_a_key_is_shown_once_and_only_its_hash_is_stored() -> None:
    async with an_office() as office:
        made = await office.admin.create_key("default", "laptop", ["run:read"], by="ada")
        text = made.key.reveal()
        assert parse_key(text).id == made.info.id
        assert text not in repr(made)
        stored = (await access.keys(office.store, [made.info.id]))[made.info.id]
        assert made.key.secret not in repr(stored)
        assert is_secret_of(made.key, stored.secret_hash)
        assert text not in repr(await office.admin.keys())


async def test_a_pepper_is_part_of_the_hash() -> None:
    async with an_office() as office:
        admin = Administration(office.store, "pepper")
        made = await admin.create_key("default", "laptop", ["run:read"], by="ada")
        stored = (await access.keys(office.store, [made.info.id]))[made.info.id]
        assert is_secret_of(made.key, stored.secret_hash, "pepper")
        assert not is_secret_of(made.key, stored.secret_hash)


async def test_two_keys_have_nothing_in_common() -> None:
    async with an_office() as office:
        one = await office.admin.create_key("default", "a", ["run:read"], by="ada")
        two = await office.admin.create_key("default", "a", ["run:read"], by="ada")
        assert one.info.id != two.info.id
        assert one.key.secret != two.key.secret


async def test_only_the_default_namespace_is_made_with_its_first_key() -> None:
    async with an_office() as office:
        await office.admin.create_key("default", "a", ["run:read"], by="ada")
        assert [info.name for info in await office.admin.namespaces()] == ["default"]
        with pytest.raises(NotFound, match=r"'shop'\. Create it: onward namespaces create shop"):
            await office.admin.create_key("shop", "a", ["run:read"], by="ada")


@pytest.mark.parametrize("scopes", [[], ["run:everything"], ["root", "run:read"]])
async def test_a_key_with_scopes_that_make_no_sense_is_refused(scopes: list[str]) -> None:
    async with an_office() as office:
        with pytest.raises(BadInput):
            await office.admin.create_key("default", "a", scopes, by="ada")
        assert not await office.admin.has_keys()


async def test_a_namespace_is_created_once() -> None:
    async with an_office() as office:
        made = await office.admin.create_namespace("shop", "The shop")
        assert (made.title, made.enabled) == ("The shop", True)
        with pytest.raises(BadInput, match="already exists"):
            await office.admin.create_namespace("shop")
        with pytest.raises(BadInput, match="control character"):
            await office.admin.create_namespace("a\nb")


async def test_a_namespace_is_disabled_and_enabled() -> None:
    async with an_office() as office:
        await office.admin.create_namespace("shop")
        assert not (await office.admin.enable("shop", enabled=False)).enabled
        assert not (await office.admin.namespace("shop")).enabled
        assert (await office.admin.enable("shop", enabled=True)).enabled
        with pytest.raises(NotFound):
            await office.admin.enable("bank", enabled=True)


async def test_a_key_is_revoked_by_its_id_or_by_its_text() -> None:
    async with an_office() as office:
        one = await office.admin.create_key("default", "a", ["run:read"], by="ada")
        two = await office.admin.create_key("default", "b", ["run:read"], by="ada")
        assert (await office.admin.revoke(one.info.id)).state == "revoked"
        assert (await office.admin.revoke(two.key.reveal())).state == "revoked"
        assert [info.state for info in await office.admin.keys()] == ["revoked", "revoked"]
        assert await office.admin.has_keys()


async def test_a_key_that_does_not_exist_is_not_quoted() -> None:
    async with an_office() as office:
        stray = make_key(1, 2)
        with pytest.raises(NotFound) as missing:
            await office.admin.revoke(stray.reveal())
        assert stray.secret not in str(missing.value)
        with pytest.raises(BadInput) as wrong:
            await office.admin.revoke(stray.reveal()[:-1])
        assert stray.secret not in f"{wrong.value}{wrong.value!r}"
        assert wrong.value.__context__ is None


async def test_keys_of_another_namespace_are_not_found() -> None:
    async with an_office() as office:
        made = await office.admin.create_key("default", "a", ["run:read"], by="ada")
        for change in (
            office.admin.revoke(made.info.id, namespace="shop"),
            office.admin.rotate(made.info.id, by="ada", namespace="shop"),
        ):
            with pytest.raises(NotFound):
                await change
        assert [info.state for info in await office.admin.keys("default")] == ["active"]
        assert await office.admin.keys("shop") == []


async def test_a_rotated_key_can_do_the_same_and_the_old_one_expires() -> None:
    async with an_office() as office:
        old = await office.admin.create_key("default", "ci", ["run:read", "run:start"], by="ada")
        new = await office.admin.rotate(old.info.id, by="bob", grace=HOUR)
        assert new.info.scopes == old.info.scopes
        assert (new.info.name, new.info.created_by) == ("ci", "bob")
        assert new.key.secret != old.key.secret
        assert {info.state for info in await office.admin.keys()} == {"active"}
        office.clock.advance(HOUR)
        states = {info.id: info.state for info in await office.admin.keys()}
        assert states == {old.info.id: "expired", new.info.id: "active"}


async def test_a_rotated_key_lasts_as_long_as_the_old_one_did() -> None:
    async with an_office() as office:
        old = await office.admin.create_key(
            "default", "ci", ["run:read"], by="ada", expires_in=90 * DAY
        )
        office.clock.advance(80 * DAY)
        new = await office.admin.rotate(old.info.id, by="ada")
        assert new.info.expires_at is not None
        assert old.info.expires_at is not None
        assert (new.info.expires_at - old.info.expires_at).days == 80


async def test_a_key_that_cannot_be_used_is_not_rotated() -> None:
    async with an_office() as office:
        old = await office.admin.create_key("default", "ci", ["run:read"], by="a", expires_in=DAY)
        office.clock.advance(DAY)
        with pytest.raises(BadInput, match="is expired"):
            await office.admin.rotate(old.info.id, by="ada")
        revoked = await office.admin.create_key("default", "ci", ["run:read"], by="ada")
        await office.admin.revoke(revoked.info.id)
        with pytest.raises(BadInput, match="is revoked"):
            await office.admin.rotate(revoked.info.id, by="ada")
