"""A database in which every payload holds a canary, and arguments for every operation."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onward import App, Consumer, Pipeline, Prepared, Retry, Signal, current, effect, step, workflow
from onward.codec import Payload
from onward.core.bulk import BulkAction
from onward.core.effect import Verdict
from onward.core.flow import FlowId, FlowKind
from onward.core.retention import Retention
from onward.engine.client_engine import Decision, FailurePeriod
from onward.engine.flows import FlowChange
from onward.engine.pipeline_engine import STALE_AFTER, InputFilter
from onward.engine.search import RunPage
from onward.errors import NeedsApproval
from onward.model.bulk import BulkOptions, Target
from onward.model.flow import DeclaredLimits
from onward.model.pipelines import NewEvent, PipelineSpec
from onward.model.run_filter import RunQuery
from onward.model.runs import NewRun
from onward.model.schedules import ScheduleSpec
from onward.pipelines import Input
from tests.kit.watching import until
from tests.server.raw import uid_of

if TYPE_CHECKING:
    from onward.pipelines import MutateContext, PrepareContext, Topic
    from onward.wire.operations import Operation

CANARY = "canary-7f3a90"

go: Signal[str] = Signal("go")


@step(cache="1h", retry=Retry(attempts=2, delay="1h", max_delay="1h"))
async def note(text: str, *, fails: bool = False) -> str:
    if fails:
        raise ValueError(text)
    return text


@effect(settle="1h")
async def charge(text: str) -> str:
    raise ConnectionError(text)


@workflow
async def succeed(text: str) -> str:
    run = current()
    run.attributes["customer"] = text
    run.progress(text)
    return await note(text)


@workflow
async def fail(text: str) -> None:
    raise ValueError(text)


@workflow
async def hold(text: str) -> str:
    return await go.wait()


@workflow
async def wait(text: str) -> str:
    return await note(text, fails=True)


@workflow
async def pay(text: str) -> str:
    return await charge(text)


def mail_pipeline() -> tuple[Pipeline, Topic[str]]:
    """Return a pipeline whose consumer pauses for a person; each test declares its own."""
    post = Pipeline("post")
    letters = post.topic("letters", str)

    @post.consumer(subscribes=[letters])
    class Deliver(Consumer[None, str]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[str]:
            events = await ctx.peek(letters, limit=1)
            raise NeedsApproval(events[0].payload)

        async def mutate(self, ctx: MutateContext, prepared: Prepared[str]) -> None:
            raise NotImplementedError

    return post, letters


class Filled(NamedTuple):
    """What is in the database: its runs, by id and uid, an effect and an input."""

    runs: dict[str, str]
    effect: str
    input: str

    def calls(self, operation: Operation) -> list[dict[str, Any]]:
        """Return arguments of an operation; if it is about a run, once for each run."""
        kind = operation.arguments.type
        own = {"uid": self.input} if operation.group == "pipelines" else {}
        own |= {"given": self.effect} if operation.method == "find_effect" else {}
        effect = {"key": self.effect, "beginning": self.effect[:4]}
        values = ARGUMENTS | effect | {"uids": list(self.runs.values())} | own
        values |= BY_OPERATION.get(operation.name, {})
        needed = [each.name for each in msgspec.structs.fields(kind) if each.required]
        runs = [
            {"run": i, "run_id": i, "uid": u, "given": i} | values for i, u in self.runs.items()
        ]
        found = [{name: given[name] for name in needed} for given in runs]
        return [each for at, each in enumerate(found) if each not in found[:at]]


DATA = f'json:"{CANARY}"'.encode()
WHEN = ("0 0 1 1 *", None, "UTC", "skip", "latest", 1, 0)
SPEC = ScheduleSpec("weekly", "succeed", DATA, "h", "{}", *WHEN)
FLOW = FlowId(FlowKind.QUEUE, "mail")

ARGUMENTS: dict[str, Any] = {
    "action": BulkAction.PAUSE,
    "after": "",
    "attributes": {},
    "before": 2,
    "by": "tester",
    "change": FlowChange(max=1),
    "changes": False,
    "consumer": None,
    "count": 1,
    "decision": Decision("a test", "tester"),
    "dry_run": True,
    "events": [NewEvent("e9", "letters", "m9", DATA)],
    "flow": FLOW,
    "identity": ":note#1",
    "ids": ["m1"],
    "is_full": True,
    "keep": Retention(),
    "limit": 100,
    "limits": DeclaredLimits(),
    "maximum": 10,
    "name": None,
    "on_conflict": "return",
    "options": BulkOptions(),
    "page": RunPage(),
    "payload": Payload("json", f'"{CANARY}"'.encode()),
    "period": FailurePeriod(),
    "pipeline": None,
    "position": None,
    "producer": None,
    "query": RunQuery(),
    "reason": "a test",
    "spec": SPEC,
    "stale_after": STALE_AFTER,
    "start": 1,
    "step": "note",
    "target": Target("x", "succeed-1", "y"),
    "topic": "letters",
    "verdict": Verdict.SKIP,
    "version": None,
    "wanted": "default",
    "worker": "w1",
    "yes": True,
}
BY_OPERATION: dict[str, dict[str, Any]] = {
    "declare": {"flow": FlowId(FlowKind.WORKFLOW, "succeed")},
    "pipelines.declare": {"spec": PipelineSpec("other", False, "default", (), ())},
    "pipelines.inputs": {"wanted": InputFilter()},
    "schedules.preview": {"after": None},
    "schedules.update": {"changes": {"zone": "Europe/Berlin"}},
    "signal": {"name": "other"},
    "start": {"run": NewRun(uid_of("new"), "new", "succeed", DATA, "h")},
    **{f"schedules.{name}": {"name": "nightly"} for name in ("get", "slots", "trigger", "delete")},
}


async def fill(url: str) -> Filled:
    """Leave a canary wherever a payload can be."""
    app = App(url)
    post, letters = mail_pipeline()
    async with app, app.worker(workflows=[succeed, fail, hold, wait, pay], pipelines=[post]):
        runs = [
            await app.start(each.options(id=f"{each.name}-1"), CANARY)
            for each in (succeed, fail, hold, wait, pay)
        ]
        await runs[2].signal("other", CANARY)
        await app.schedules.create("nightly", succeed, [CANARY], cron="0 0 1 1 *")
        mail = Input("gmail", "email", "18c2", CANARY)
        await app.publish(letters, CANARY, id="m1", input=mail)
        await until(partial(_is_quiet, app))
        [paused] = await app.runs(kind="consumer")
        [pending] = await app.effects.pending()
        [entered] = await app.inputs.list()
    found = {run.id: run.uid for run in runs} | {paused.id: paused.uid}
    return Filled(found, pending.id, entered.id)


async def _is_quiet(app: App) -> bool:
    counts = await app.counts()
    return counts.get("paused") == 2 and not {"ready", "running"} & set(counts)


def shows(data: bytes) -> bool:
    """Return whether the canary is in an answer, as it is or in base64."""
    encoded = (b64encode(b"-" * shift + CANARY.encode()) for shift in range(3))
    return any(part in data for part in (CANARY.encode(), *(each[4:-4] for each in encoded)))
