"""The life of a child run, by a fake engine: started, awaited, cancelled with its parent."""

from __future__ import annotations

import asyncio

import pytest

import onward
from onward import workflow
from onward.core.inbox import MessageKind
from onward.core.replay import CANCEL_IDENTITY
from onward.errors import Conflict
from onward.runtime.registry import Registry
from tests.unit.runtime.fake_engine import UID, FakeEngine, FakeRun, arguments, worked, working

OTHER = "01a1de9b-5b4c-728b-97c9-000000000002"


@workflow
async def double(n: int) -> int:
    return 2 * n


@workflow
async def fail() -> int:
    raise LookupError("no such page")


@workflow
async def rest() -> str:
    await onward.sleep("1h")
    return "rested"


@workflow
async def nap() -> str:
    await onward.sleep("1m")
    return "rested"


@workflow
async def awaits(what: str) -> int | str:
    match what:
        case "double":
            return await double(4)
        case "fail":
            return await fail()
        case "named":
            return await rest.options(id="chosen")()
        case "nap":
            return await nap.options(id="chosen")()
        case _:
            return await rest()


@workflow
async def gives_up() -> str:
    try:
        async with asyncio.timeout(60):
            return await rest()
    except TimeoutError:
        return "it took too long"


@workflow
async def starts(what: str) -> str:
    child = await onward.start(rest.options(id="chosen") if what == "named" else rest)
    return await child.result() if what == "awaited" else "done"


REGISTRY = Registry(
    [each.definition for each in (double, fail, rest, nap, awaits, gives_up, starts)]
)


def a_parent(name: str, *args: str) -> tuple[FakeEngine, FakeRun]:
    engine = FakeEngine()
    return engine, engine.add(name, arguments({"awaits": awaits, "starts": starts}[name], *args))


def children_of(engine: FakeEngine, uid: str = UID) -> list[FakeRun]:
    return [run for run in engine.runs.values() if run.new.parent == uid]


@pytest.mark.parametrize("warm", [0, 100])
@pytest.mark.parametrize(("what", "result"), [("double", 8), ("rest", "rested")])
async def test_a_parent_receives_the_result_of_its_child(
    what: str, result: object, warm: int
) -> None:
    engine, _ = a_parent("awaits", what)

    assert await worked(engine, REGISTRY, warm=warm) == result
    [child] = children_of(engine)
    assert (child.state, child.fence) == ("succeeded", 1 if what == "double" else 2)


async def test_a_parent_receives_the_error_of_its_child() -> None:
    engine, _ = a_parent("awaits", "fail")

    with pytest.raises(LookupError, match="no such page"):
        await worked(engine, REGISTRY)


async def test_a_child_is_cancelled_with_its_parent() -> None:
    engine, parent = a_parent("awaits", "rest")
    async with working(engine, REGISTRY):
        await engine.until(lambda: parent.state == "waiting" and bool(children_of(engine)))
        engine.send(MessageKind.CANCEL, "operator")
        await engine.until(lambda: parent.is_over and children_of(engine)[0].is_over)

    [child] = children_of(engine)
    assert (parent.state, child.state) == ("cancelled", "cancelled")
    assert (CANCEL_IDENTITY, 1) in child.records


async def test_a_child_that_its_parent_gives_up_is_cancelled_and_the_parent_goes_on() -> None:
    engine = FakeEngine()
    parent = engine.add("gives_up", arguments(gives_up))

    assert await worked(engine, REGISTRY) == "it took too long"
    [child] = children_of(engine)
    assert engine.calls.count("dismiss") == 1
    assert [row.name for row in child.inbox] == ["parent"]
    assert parent.state == "succeeded"


async def test_a_started_run_outlives_the_run_that_started_it() -> None:
    engine, parent = a_parent("starts", "alone")
    async with working(engine, REGISTRY):
        await engine.until(lambda: parent.is_over)
        [child] = children_of(engine)
        assert not child.is_over
        await engine.until(lambda: child.is_over)

    assert (parent.outcome(), child.outcome()) == ("done", "rested")
    assert "dismiss" not in engine.calls


@pytest.mark.parametrize("warm", [0, 100])
async def test_a_started_run_reports_its_end_to_the_run_that_awaits_it(warm: int) -> None:
    engine, _ = a_parent("starts", "awaited")

    assert await worked(engine, REGISTRY, warm=warm) == "rested"
    assert "end_of" not in engine.calls


async def test_a_child_with_an_id_is_started_by_the_engine_and_then_awaited() -> None:
    engine, _ = a_parent("awaits", "named")

    assert await worked(engine, REGISTRY) == "rested"
    assert engine.calls.count("start") == 1
    assert [child.new.id for child in children_of(engine)] == ["chosen"]


async def test_a_child_whose_id_is_taken_is_refused() -> None:
    engine, parent = a_parent("awaits", "named")
    engine.add("rest", arguments(rest), OTHER, "chosen").state = "succeeded"

    with pytest.raises(Conflict, match="chosen"):
        await worked(engine, REGISTRY)
    assert parent.state == "failed"


async def test_the_run_of_an_earlier_attempt_reports_to_that_and_is_polled() -> None:
    engine, parent = a_parent("awaits", "named")
    found = engine.add("rest", arguments(rest), OTHER, "chosen")
    found.new = found.new._replace(parent=UID)

    assert await worked(engine, REGISTRY) == "rested"
    assert engine.calls.count("end_of") > 100  # every 30 seconds at last
    assert parent.state == "succeeded"


async def test_a_start_that_the_engine_cannot_make_yet_is_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, _ = a_parent("awaits", "named")
    start, refusals = engine.start, [None, None]

    async def busy(*args: object) -> object:
        return refusals.pop() if refusals else await start(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "start", busy)
    assert await worked(engine, REGISTRY) == "rested"
    assert refusals == []


@pytest.mark.parametrize("warm", [0, 100])
async def test_a_child_that_ends_before_its_parent_knows_that_it_was_started_is_not_missed(
    monkeypatch: pytest.MonkeyPatch, warm: int
) -> None:
    engine, _ = a_parent("awaits", "nap")
    start, late = engine.start, [None, None]

    async def unheard(*args: object) -> object:
        """Start the child, and lose the answers until a while after it has ended."""
        started = await start(*args)  # type: ignore[arg-type]
        [child] = children_of(engine)
        return started if child.is_over and not late else late.pop() if child.is_over else None

    monkeypatch.setattr(engine, "start", unheard)
    assert await worked(engine, REGISTRY, warm=warm) == "rested"
