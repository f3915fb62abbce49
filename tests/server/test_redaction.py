"""A key without `payload:read` sees runs, and in the place of every payload a marker."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from onward import App
from onward.core.access import role_scopes
from onward.engine.pipeline_engine import InputFilter
from onward.engine.redaction import PAYLOAD, REDACTED
from onward.errors import Forbidden
from onward.wire.operations import OPERATIONS
from tests.server.canaries import CANARY, fill, shows
from tests.server.test_keys import a_key, client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.wire.operations import Operation
    from tests.server.canaries import Filled
    from tests.server.conftest import World, Worlds

READING = ("run:read", "payload:read")
NO_ERROR_YET = {"unserved"}
"""Only an error of a run that waits for a worker could be shown."""

ADMIN = role_scopes("admin")


def parts(hint: Any, seen: frozenset[Any] = frozenset()) -> Iterator[Any]:
    """Return all annotations in a type, down to the fields of its classes."""
    yield hint
    if get_origin(hint) is Annotated or hint in seen:
        return
    is_class = is_dataclass(hint) or hasattr(hint, "_fields")
    fields = get_type_hints(hint, include_extras=True).values() if is_class else ()
    for each in (*get_args(hint), *fields):
        yield from parts(each, seen | {hint})


def is_marked(hint: Any) -> bool:
    return get_origin(hint) is Annotated and PAYLOAD in get_args(hint)[1:]


async def replies(world: World, key: str, filled: Filled, operation: Operation) -> bytes:
    client = client_of(world, key)
    calls = filled.calls(operation)
    wanted = calls if operation.scope in READING else calls[:1]
    found = [await client.reply(operation.name, each) for each in wanted]
    return b"".join(reply.SerializeToString() for reply in found)


async def test_no_answer_to_a_key_without_payload_read_holds_a_payload(sqlite: Worlds) -> None:
    filled = await fill(sqlite.url)
    blind, seeing = (
        await a_key(sqlite.url, *ADMIN - {"payload:read"}),
        await a_key(sqlite.url, *ADMIN),
    )
    async with sqlite.serve() as world:
        reading = [each for each in OPERATIONS.values() if each.scope in READING]
        shown = {each.name for each in reading if shows(await replies(world, seeing, filled, each))}
        changing = [each for each in OPERATIONS.values() if each.scope not in READING]
        leaking = [
            each.name
            for each in (*reading, *changing)
            if shows(await replies(world, blind, filled, each))
        ]
    assert leaking == []
    marked = {each.name for each in reading if any(map(is_marked, parts(each.hints["return"])))}
    assert shown == marked - NO_ERROR_YET | {"end_now", "open_runs", "recorded_arguments"}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_data_of_users_is_marked_where_a_key_without_payload_read_gets_it(name: str) -> None:
    operation = OPERATIONS[name]
    if operation.scope != "payload:read":
        assert not {Any, bytes, object} & set(parts(operation.hints["return"]))


async def test_an_app_with_such_a_key_lists_and_shows_runs(sqlite: Worlds) -> None:
    await fill(sqlite.url)
    key = await a_key(sqlite.url, *role_scopes("viewer"))
    async with sqlite.serve() as world, App(f"onward://{world.server.address}", key=key) as app:
        run = await app.get("succeed-1")
        info = await run.info()
        assert (info.state, info.progress, info.attributes) == (
            "succeeded",
            REDACTED,
            {"customer": REDACTED},
        )
        [call, *_] = await run.history()
        assert (call.name, call.value, call.arguments) == ("note", REDACTED, REDACTED)
        [failed] = await app.runs(state="failed")
        assert (failed.error_type, failed.error) == ("ValueError", REDACTED)
        with pytest.raises(Forbidden, match="payload:read"):
            await run.result(timeout="10s")
        with pytest.raises(Forbidden, match="payload:read"):
            await app.runs(attributes={"customer": CANARY})
        with pytest.raises(Forbidden, match="payload:read"):
            await app._engine.pipelines.inputs(InputFilter(text=CANARY))
