"""Authentication: who may pass, how soon a revoked key is refused, and what it costs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.access import make_key
from onward.core.instant import HOUR, SECOND
from onward.engine.access.administration import Administration
from onward.engine.access.authenticator import LOOKUPS, MISSES, Authenticator, source_of
from onward.errors import RateLimited, Unauthenticated, Unavailable
from onward.store import open_store
from onward.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.engine.access.views import CreatedKey
    from onward.store import Store


class Gate:
    """An authenticator over a database whose reads are counted, and which may be away."""

    def __init__(self, store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.clock = clock
        self.admin = Administration(store)
        self.gate = Authenticator(store, clock)
        self.reads = 0
        self.open_reads = self.most_reads = 0
        self.is_away = False
        inner = store.database.read

        async def read(work: Any) -> Any:
            self.reads += 1
            if self.is_away:
                raise Unavailable("the database", "is away")
            self.open_reads += 1
            self.most_reads = max(self.most_reads, self.open_reads)
            try:
                return await inner(work)
            finally:
                self.open_reads -= 1

        monkeypatch.setattr(store.database, "read", read)

    async def key(self, *scopes: str, namespace: str = "default") -> CreatedKey:
        return await self.admin.create_key(namespace, "laptop", scopes or ["run:read"], by="ada")


@asynccontextmanager
async def a_gate(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        yield Gate(store, clock, monkeypatch)


def bearer(made: CreatedKey) -> str:
    return f"Bearer {made.key.reveal()}"


async def test_the_principal_is_what_the_key_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        await at.admin.create_namespace("shop")
        made = await at.key("run:read", "worker:poll:gpu", namespace="shop")
        principal = await at.gate.authenticate(bearer(made))
        assert (principal.key_id, principal.name) == (made.info.id, "laptop")
        assert principal.namespace == "shop"
        assert principal.scopes == {"run:read", "worker:poll:gpu"}
        assert principal.is_enabled


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic b253OnB3", "hunter2", "Bearer onw_"])
async def test_a_request_without_a_key_is_refused(
    header: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_gate(monkeypatch) as at:
        with pytest.raises(Unauthenticated, match=r"onw_|ONWARD_KEY") as refused:
            await at.gate.authenticate(header)
        assert "hunter2" not in f"{refused.value}{refused.value!r}"
        assert at.reads == 0


async def test_the_scheme_is_read_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(f"bearer  {made.key.reveal()} ")


async def test_a_key_with_another_secret_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        forged = make_key(0, 1)
        forged.id = made.info.id
        with pytest.raises(Unauthenticated, match="does not know") as refused:
            await at.gate.authenticate(f"Bearer {forged.reveal()}")
        assert forged.secret not in str(refused.value)
        with pytest.raises(Unauthenticated, match="does not know"):
            await at.gate.authenticate(f"Bearer {make_key(5, 5).reveal()}")


async def test_a_peppered_key_needs_the_pepper(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        admin = Administration(at.store, "pepper")
        made = await admin.create_key("default", "a", ["run:read"], by="ada")
        with pytest.raises(Unauthenticated):
            await at.gate.authenticate(bearer(made))
        await Authenticator(at.store, at.clock, "pepper").authenticate(bearer(made))


async def test_a_revoked_key_is_refused_within_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(bearer(made))
        await at.admin.revoke(made.info.id)
        await at.gate.authenticate(bearer(made))
        at.clock.advance(5 * SECOND)
        with pytest.raises(Unauthenticated, match="was revoked"):
            await at.gate.authenticate(bearer(made))


async def test_an_expired_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.admin.create_key("default", "a", ["run:read"], by="ada", expires_in=HOUR)
        await at.gate.authenticate(bearer(made))
        at.clock.advance(HOUR)
        with pytest.raises(Unauthenticated, match="has expired"):
            await at.gate.authenticate(bearer(made))


async def test_a_key_is_read_once_however_often_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        at.reads = 0
        await asyncio.gather(*(at.gate.authenticate(bearer(made)) for _ in range(50)))
        await at.gate.authenticate(bearer(made))
        assert at.reads == 1


async def test_a_disabled_namespace_is_noticed_within_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key("run:start")
        await at.gate.authenticate(bearer(made))
        await at.admin.enable("default", enabled=False)
        at.clock.advance(5 * SECOND)
        assert not (await at.gate.authenticate(bearer(made))).is_enabled
        current = await at.gate.current(made.info.id)
        assert current is not None
        assert not current.is_enabled


# --- streams --------------------------------------------------------------------------------------


async def test_a_stream_of_a_revoked_key_ends_within_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(bearer(made))
        assert await at.gate.still_valid(made.info.id)
        await at.admin.revoke(made.info.id)
        seconds = 0
        while await at.gate.still_valid(made.info.id):
            at.clock.advance(SECOND)
            seconds += 1
        assert seconds <= 5


async def test_streams_share_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        keys = [await at.key() for _ in range(3)]
        ids = [made.info.id for made in keys for _ in range(100)]
        for made in keys:
            await at.gate.still_valid(made.info.id)
        at.reads = 0
        for _ in range(20):
            at.clock.advance(SECOND)
            assert all(await asyncio.gather(*map(at.gate.still_valid, ids)))
        assert at.reads <= 5


async def test_streams_stay_open_while_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(bearer(made))
        at.is_away, at.reads = True, 0
        for _ in range(60):
            at.clock.advance(SECOND)
            assert await at.gate.still_valid(made.info.id)
            assert await at.gate.still_valid(made.info.id)
        assert at.reads <= 60
        await at.admin.enable("default", enabled=False)
        at.is_away = False
        at.clock.advance(SECOND)
        current = await at.gate.current(made.info.id)
        assert current is not None
        assert not current.is_enabled


async def test_a_request_is_not_let_in_on_old_knowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(bearer(made))
        at.is_away = True
        at.clock.advance(5 * SECOND)
        with pytest.raises(Unavailable):
            await at.gate.authenticate(bearer(made))
        at.is_away = False
        await at.gate.authenticate(bearer(made))


async def test_a_stream_whose_key_was_never_read_waits_for_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        at.is_away = True
        with pytest.raises(Unavailable):
            await at.gate.still_valid(made.info.id)
        at.is_away = False
        at.clock.advance(SECOND)
        assert await at.gate.still_valid(made.info.id)
        assert not await at.gate.still_valid("aaaaaaaaaaaa")


async def test_a_caller_that_gives_up_does_not_harm_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        one, two = (asyncio.ensure_future(at.gate.authenticate(bearer(made))) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        assert (await two).key_id == made.info.id


# --- guesses --------------------------------------------------------------------------------------


async def test_an_address_that_guesses_is_slowed_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        at.reads = 0
        guesses = [f"Bearer {make_key(n, n).reveal()}" for n in range(100)]
        answers = await asyncio.gather(
            *(at.gate.authenticate(guess, "192.0.2.1") for guess in guesses),
            return_exceptions=True,
        )
        assert at.most_reads <= LOOKUPS
        assert sum(isinstance(answer, Unauthenticated) for answer in answers) == MISSES.burst
        kinds = {type(answer) for answer in answers}
        assert kinds == {Unauthenticated, RateLimited}
        await at.gate.authenticate(bearer(made), "192.0.2.2")
        at.clock.advance(SECOND)
        another = f"Bearer {make_key(100, 100).reveal()}"
        with pytest.raises(Unauthenticated):
            await at.gate.authenticate(another, "192.0.2.1")


async def test_a_known_key_passes_beside_one_that_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(bearer(made), "192.0.2.1")
        for number in range(100):
            with pytest.raises((Unauthenticated, RateLimited)):
                await at.gate.authenticate(f"Bearer {make_key(number, 1).reveal()}", "192.0.2.1")
        at.clock.advance(5 * SECOND)
        await at.gate.authenticate(bearer(made), "192.0.2.1")


async def test_a_wrong_id_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        guess = f"Bearer {make_key(5, 5).reveal()}"
        for _ in range(10):
            with pytest.raises(Unauthenticated):
                await at.gate.authenticate(guess, "192.0.2.1")
        assert at.reads == 1


async def test_keys_that_exist_are_no_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_gate(monkeypatch) as at:
        for _ in range(2 * MISSES.burst):
            await at.gate.authenticate(bearer(await at.key()), "192.0.2.1")


async def test_many_valid_keys_pass_when_all_are_used_for_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        keys = [await at.key() for _ in range(3 * MISSES.burst)]
        at.most_reads = 0
        await asyncio.gather(*(at.gate.authenticate(bearer(key), "192.0.2.1") for key in keys))
        assert at.most_reads <= LOOKUPS


async def test_a_valid_key_passes_from_an_address_that_has_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        guesses = [f"Bearer {make_key(n, n).reveal()}" for n in range(2 * MISSES.burst)]
        trying = asyncio.gather(
            *(at.gate.authenticate(guess, "192.0.2.1") for guess in guesses),
            return_exceptions=True,
        )
        await asyncio.sleep(0)
        assert (await at.gate.authenticate(bearer(made), "192.0.2.1")).key_id == made.key.id
        await trying
        another = await at.key()
        assert (await at.gate.authenticate(bearer(another), "192.0.2.1")).key_id == another.key.id


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("unix:", "unix:"),
    ],
)
def test_a_network_of_ipv6_is_one_place(address: str, source: str) -> None:
    assert source_of(address) == source


# --- the use of keys ------------------------------------------------------------------------------


async def test_the_use_of_a_key_is_noted_about_once_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_gate(monkeypatch) as at:
        made = await at.key()
        await at.gate.authenticate(bearer(made))
        first = (await at.admin.keys())[0].last_used_at
        at.clock.advance(HOUR // 2)
        await at.gate.authenticate(bearer(made))
        assert first is not None
        assert (await at.admin.keys())[0].last_used_at == first
        at.clock.advance(HOUR)
        await at.gate.authenticate(bearer(made))
        later = (await at.admin.keys())[0].last_used_at
        assert later is not None
        assert later > first
