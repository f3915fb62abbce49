"""Declarations of pipelines: what they become, and what is refused before anything runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Retry
from onward.errors import BadInput, BadPipeline
from onward.model.pipelines import HandlerSpec, TopicSpec
from onward.pipelines import (
    Consumer,
    NextContext,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
    Topic,
)
from onward.runtime.pipelines.definition import ConsumerDefinition, ProducerDefinition
from onward.sdk.pipelines import process
from onward.sdk.pipelines.process import serve

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Mail:
    sender: str


MINUTE = 60 * 1_000_000


def a_pipeline(name: str = "mail") -> tuple[Pipeline, Topic[Mail]]:
    """Return a pipeline without handlers, and a topic of it."""
    pipeline = Pipeline(name)
    return pipeline, pipeline.topic(f"{name}.received", Mail)


async def nothing(ctx: ProducerContext, state: None) -> None: ...


class Reads:
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
        return Prepared()


def problems(*pipelines: Pipeline) -> tuple[str, ...]:
    with pytest.raises(BadPipeline) as caught:
        serve(pipelines)
    return caught.value.problems


def definitions(*pipelines: Pipeline) -> dict[str, Any]:
    return {each.name: each for each in serve(pipelines).handlers}


# --- what declarations become ---------------------------------------------------------------------


def test_a_pipeline_becomes_the_spec_of_its_topics_and_handlers() -> None:
    mail = Pipeline("mail", parallel=True, queue="slow")
    received = mail.topic("mail.received", Mail, max_pending=10, max_age="1h")
    added = mail.topic("mail.added", str)

    @mail.producer(cron="*/5 * * * *", zone="Europe/Berlin", publishes=[received])
    async def poll(ctx: ProducerContext, cursor: str | None) -> str | None: ...

    @mail.consumer(subscribes=[received], publishes=[added], start="earliest")
    class AddRow(Reads):
        async def next(
            self, ctx: NextContext, prepared: Prepared[None], outcome: Outcome
        ) -> None: ...

    (spec,) = serve([mail]).specs

    assert (spec.name, spec.is_parallel, spec.queue) == ("mail", True, "slow")
    assert spec.topics == (TopicSpec("mail.received", 10, 60 * MINUTE), TopicSpec("mail.added"))
    producer, consumer = spec.handlers
    assert producer[:5] == ("mail.poll", "producer", (), ("mail.received",), "now")
    assert consumer == HandlerSpec(
        "mail.AddRow", "consumer", ("mail.received",), ("mail.added",), "earliest"
    )


def test_a_producer_is_a_schedule_that_coalesces() -> None:
    mail, received = a_pipeline()
    mail.producer(every="5m", publishes=[received])(nothing)

    (spec,) = serve([mail]).specs
    schedule = spec.handlers[0].schedule

    assert schedule is not None
    assert (schedule.name, schedule.workflow) == ("mail.nothing", "producer mail.nothing")
    assert (schedule.every, schedule.cron) == (5 * MINUTE, None)
    assert (schedule.overlap, schedule.catch_up) == ("coalesce", "latest")


def test_decorators_return_what_they_decorate() -> None:
    mail, received = a_pipeline()

    assert mail.producer(every="5m", publishes=[received])(nothing) is nothing
    assert mail.consumer(subscribes=[received])(Reads) is Reads


def test_a_handler_can_be_given_another_name() -> None:
    mail, received = a_pipeline()
    mail.producer(every="5m", publishes=[received], name="poll")(nothing)
    mail.consumer(subscribes=[received], name="archive")(Reads)

    assert set(definitions(mail)) == {"mail.poll", "mail.archive"}


def test_the_types_of_a_consumer_are_those_in_the_brackets_of_its_base() -> None:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class Count(Consumer[dict[str, int], Mail]):
        async def prepare(self, ctx: PrepareContext, state: Any) -> Any: ...

    class Middle(Consumer[int, "Mail"]):
        async def prepare(self, ctx: PrepareContext, state: Any) -> Any: ...

    mail.consumer(subscribes=[received], name="inherits")(type("Lower", (Middle,), {}))

    made = definitions(mail)
    assert (made["mail.Count"].state, made["mail.Count"].data) == (dict[str, int], Mail | None)
    assert (made["mail.inherits"].state, made["mail.inherits"].data) == (int, Mail | None)


def test_the_types_of_a_plain_class_are_those_of_its_prepare() -> None:
    mail, received = a_pipeline()

    @dataclass(frozen=True)
    class Local:
        rows: int

    @mail.consumer(subscribes=[received])
    class Plain:
        async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[Local]:
            return Prepared()

    @mail.consumer(subscribes=[received])
    class Bare:
        async def prepare(self, ctx, state): ...  # type: ignore[no-untyped-def]  # as people write

    made = definitions(mail)
    assert (made["mail.Plain"].state, made["mail.Plain"].data) == (int | None, Local | None)
    assert (made["mail.Bare"].state, made["mail.Bare"].data) == (Any, Any)


def test_the_state_of_a_producer_has_the_type_of_its_second_parameter() -> None:
    mail, received = a_pipeline()

    @mail.producer(every="1m", publishes=[received])
    async def poll(ctx: ProducerContext, cursor: dict[str, int]) -> dict[str, int]:
        return cursor

    made = definitions(mail)["mail.poll"]
    assert isinstance(made, ProducerDefinition)
    assert (made.state, made.fn) == (dict[str, int], poll)


def test_a_consumer_has_the_methods_that_its_class_defines_and_options_of_its_own() -> None:
    mail, received = a_pipeline()

    @mail.consumer(
        subscribes=[received], timeout="1m", retry=Retry(attempts=2), min_wake="1s", max_wake="1m"
    )
    class AddRow(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            return Prepared()

    made = definitions(mail)["mail.AddRow"]
    assert isinstance(made, ConsumerDefinition)
    assert (made.mutate, made.next) == (None, None)
    assert made.retry.attempts == 2
    assert (made.timeout, made.min_wake, made.max_wake) == (MINUTE, MINUTE // 60, MINUTE)


def test_a_process_builds_one_instance_of_a_consumer() -> None:
    mail, received = a_pipeline()
    built = []

    @mail.consumer(subscribes=[received])
    class Count(Reads):
        def __init__(self) -> None:
            built.append(self)

    first, second = definitions(mail), definitions(mail)

    assert len(built) == 1
    assert first["mail.Count"].prepare == second["mail.Count"].prepare


def test_a_class_that_cannot_be_built_is_named_with_its_error() -> None:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class Broken(Reads):
        def __init__(self) -> None:
            raise LookupError("no such sheet")

    with pytest.raises(BadInput, match=r"'mail.Broken' could not be built: LookupError: no such"):
        serve([mail])


# --- what is refused ------------------------------------------------------------------------------


def no_handler() -> Pipeline:
    return a_pipeline()[0]


def no_schedule() -> Pipeline:
    mail, received = a_pipeline()
    mail.producer(publishes=[received])(nothing)
    return mail


def two_schedules() -> Pipeline:
    mail, received = a_pipeline()
    mail.producer(every="1m", cron="* * * * *", publishes=[received])(nothing)
    return mail


def bad_cron() -> Pipeline:
    mail, received = a_pipeline()
    mail.producer(cron="61 * * * *", publishes=[received])(nothing)
    return mail


def bad_zone() -> Pipeline:
    mail, received = a_pipeline()
    mail.producer(cron="1 * * * *", zone="Mars/North", publishes=[received])(nothing)
    return mail


def bad_interval() -> Pipeline:
    mail, received = a_pipeline()
    mail.producer(every="5 minutes or so", publishes=[received])(nothing)
    return mail


def no_publishes() -> Pipeline:
    mail, _ = a_pipeline()
    mail.producer(every="5m")(nothing)
    return mail


def no_subscribes() -> Pipeline:
    mail, _ = a_pipeline()
    mail.consumer()(Reads)
    return mail


def no_prepare() -> Pipeline:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class Idle(Consumer[None, None]):
        async def mutate(self, ctx: Any, prepared: Any) -> None: ...

    return mail


def no_next() -> Pipeline:
    mail, received = a_pipeline()
    added = mail.topic("mail.added", str)
    mail.consumer(subscribes=[received], publishes=[added])(Reads)
    return mail


def undeclared_topic() -> Pipeline:
    mail, _ = a_pipeline()
    mail.consumer(subscribes=[Topic("elsewhere", str)])(Reads)
    return mail


def topic_by_name() -> Pipeline:
    mail, _ = a_pipeline()
    mail.consumer(subscribes=["mail.received"])(Reads)  # type: ignore[list-item]  # the mistake
    return mail


def topic_without_list() -> Pipeline:
    mail, received = a_pipeline()
    mail.consumer(subscribes=received)(Reads)  # type: ignore[arg-type]  # that is the mistake
    return mail


def sync_producer() -> Pipeline:
    mail, received = a_pipeline()

    def poll(ctx: ProducerContext, state: None) -> None: ...

    mail.producer(every="5m", publishes=[received])(poll)  # type: ignore[type-var]  # the mistake
    return mail


def sync_mutate() -> Pipeline:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class AddRow(Reads):
        def mutate(self, ctx: Any, prepared: Any) -> None: ...

    return mail


def yielding_prepare() -> Pipeline:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class AddRow:
        async def prepare(self, ctx: Any, state: Any) -> Any:
            yield Prepared()

    return mail


def wrong_parameters() -> Pipeline:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class AddRow(Reads):
        async def next(self, ctx: Any, prepared: Any) -> None: ...

    return mail


def not_callable() -> Pipeline:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class AddRow(Reads):
        mutate = 7

    return mail


def not_a_class() -> Pipeline:
    mail, received = a_pipeline()
    mail.consumer(subscribes=[received])(nothing)  # type: ignore[type-var]  # that is the mistake
    return mail


def needs_arguments() -> Pipeline:
    mail, received = a_pipeline()

    @mail.consumer(subscribes=[received])
    class AddRow(Reads):
        def __init__(self, sheet: str) -> None: ...

    return mail


def two_of_one_name() -> Pipeline:
    mail, received = a_pipeline()
    mail.consumer(subscribes=[received], name="AddRow")(Reads)

    @mail.consumer(subscribes=[received])
    class AddRow:
        async def prepare(self, ctx: Any, state: Any) -> Any: ...

    return mail


def other_type() -> Pipeline:
    mail, received = a_pipeline()
    mail.topic("mail.received", str)
    mail.consumer(subscribes=[received])(Reads)
    return mail


def other_limits() -> Pipeline:
    mail, _ = a_pipeline()
    mail.consumer(subscribes=[Topic("mail.received", Mail, max_pending=5)])(Reads)
    return mail


def unknown_start() -> Pipeline:
    mail, received = a_pipeline()
    mail.consumer(subscribes=[received], start="yesterday")(Reads)
    return mail


def no_time() -> Pipeline:
    mail, received = a_pipeline()
    mail.consumer(subscribes=[received], timeout=0)(Reads)
    return mail


def wakes_crossed() -> Pipeline:
    mail, received = a_pipeline()
    mail.consumer(subscribes=[received], min_wake="2h", max_wake="1h")(Reads)
    return mail


def unknown_annotation() -> Pipeline:
    mail, received = a_pipeline()

    @mail.producer(every="5m", publishes=[received])
    async def poll(ctx: ProducerContext, cursor: Cursor) -> Cursor: ...  # type: ignore[name-defined]  # noqa: F821

    return mail


MISTAKES: dict[Callable[[], Pipeline], str] = {
    no_handler: "pipeline 'mail' has no producer and no consumer. Add one with",
    no_schedule: "producer 'mail.nothing' has no schedule. Pass every= or cron=",
    two_schedules: "producer 'mail.nothing' has both every= and cron=. Pass only one of them",
    bad_cron: "producer 'mail.nothing': cron '61 * * * *'",
    bad_zone: "producer 'mail.nothing': ",
    bad_interval: "producer 'mail.nothing': duration '5 minutes or so' is not a valid duration.",
    no_publishes: "producer 'mail.nothing' publishes to no topic. Pass publishes=[...]",
    no_subscribes: "consumer 'mail.Reads' subscribes to no topic. Pass subscribes=[...]",
    no_prepare: "consumer 'mail.Idle' has no prepare method. Add async def prepare(",
    no_next: "consumer 'mail.Reads' has publishes= but no next method, and only next can publish.",
    undeclared_topic: "consumer 'mail.Reads' uses topic 'elsewhere', which no pipeline declares.",
    topic_by_name: "consumer 'mail.Reads' has 'mail.received' in subscribes=, which is not",
    topic_without_list: "consumer 'mail.Reads' has subscribes=<topic mail.received>, which is not",
    sync_producer: "producer 'mail.poll' is a function that is not async. Write it as async def",
    sync_mutate: "consumer 'mail.AddRow' has a mutate method that is not async. Write it as async",
    yielding_prepare: "consumer 'mail.AddRow' has a prepare method that yields. Return one value",
    wrong_parameters: "consumer 'mail.AddRow' has a next method that takes (ctx: 'Any', prepared: "
    "'Any') -> 'None', but is called with (ctx, prepared, outcome). Change its parameters",
    not_callable: "consumer 'mail.AddRow' has 7 as mutate, which is not callable.",
    not_a_class: "consumer 'mail.nothing' is <function nothing at",
    needs_arguments: "consumer 'mail.AddRow' cannot be built without arguments: missing a required "
    "argument: 'sheet'. Give the parameters of __init__ defaults",
    two_of_one_name: "'mail.AddRow' is the name of ",
    other_type: "topic 'mail.received' is declared with different types, Mail and str. Declare it",
    other_limits: "consumer 'mail.Reads' uses topic 'mail.received' with different limits, "
    "max_pending=None and 5. Use the topic",
    unknown_start: """consumer 'mail.Reads' has start='yesterday'. Use "now" or "earliest\"""",
    no_time: "consumer 'mail.Reads': timeout=0 leaves no time at all.",
    wakes_crossed: "consumer 'mail.Reads': min_wake=2h is 0, or longer than max_wake=1h.",
    unknown_annotation: "producer 'mail.poll' annotates its state with 'Cursor', which is not",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_named_with_its_handler_and_what_to_do(
    mistake: Callable[[], Pipeline],
) -> None:
    (problem,) = problems(mistake())
    assert problem.startswith(MISTAKES[mistake])


def test_all_problems_of_all_pipelines_are_in_one_error() -> None:
    mail, received = a_pipeline()
    mail.producer(publishes=[received])(nothing)
    mail.consumer()(Reads)

    with pytest.raises(BadPipeline) as caught:
        serve([mail, Pipeline("empty")])

    assert str(caught.value) == (
        "the pipelines of this process have 3 problems:\n"
        "- producer 'mail.nothing' has no schedule. Pass every= or cron=.\n"
        "- consumer 'mail.Reads' subscribes to no topic. Pass subscribes=[...].\n"
        "- pipeline 'empty' has no producer and no consumer. "
        "Add one with @pipeline.producer or @pipeline.consumer."
    )


async def test_a_worker_does_not_start_with_a_wrong_pipeline(memory: App) -> None:
    with pytest.raises(BadPipeline, match="has no producer and no consumer"):
        async with memory.worker(pipelines=[Pipeline("empty")]):
            pytest.fail("the worker started")


def test_only_pipelines_can_be_served() -> None:
    with pytest.raises(BadInput, match="is not a Pipeline"):
        serve(["mail"])  # type: ignore[list-item]  # that is the mistake


@pytest.mark.parametrize("name", ["two words", "", "a\nb"])
def test_a_name_that_cannot_be_part_of_others_is_refused_at_once(name: str) -> None:
    with pytest.raises(BadInput, match="the pipeline name"):
        Pipeline(name)


@pytest.mark.parametrize("name", ["two words", "a.b", ""])
def test_a_handler_has_a_name_without_blanks_and_dots(name: str) -> None:
    mail, received = a_pipeline()
    with pytest.raises(BadInput):
        mail.consumer(subscribes=[received], name=name)(Reads)


# --- the pipelines of a process -------------------------------------------------------------------


def good(name: str) -> Pipeline:
    pipeline, received = a_pipeline(name)
    pipeline.consumer(subscribes=[received])(Reads)
    return pipeline


def test_a_worker_serves_all_pipelines_of_its_process_or_those_that_it_is_given() -> None:
    first, _ = good("first"), good("second")

    assert [spec.name for spec in serve(None).specs] == ["first", "second"]
    assert [spec.name for spec in serve([first]).specs] == ["first"]


def test_a_pipeline_that_a_function_makes_again_replaces_the_earlier_one() -> None:
    good("mail")
    newer = good("mail")

    assert process.registered == [newer]


def test_two_pipelines_of_one_name_at_the_top_level_of_modules_are_a_problem() -> None:
    code = "from onward.pipelines import Pipeline\nmail = Pipeline('mail')\n"
    for file in ("first.py", "second.py"):
        exec(compile(code, file, "exec"), {"__name__": file})

    with pytest.raises(BadPipeline, match=r"'mail' is defined at first.py:2 and at second.py:2"):
        serve(None)


def test_a_handler_that_is_defined_again_replaces_the_earlier_one() -> None:
    mail, received = a_pipeline()
    for _ in range(2):

        @mail.consumer(subscribes=[received])
        class AddRow:
            async def prepare(self, ctx: Any, state: Any) -> Any: ...

    assert set(definitions(mail)) == {"mail.AddRow"}


def test_the_pipeline_that_owns_a_topic_is_declared_with_those_that_use_it() -> None:
    shop = good("shop")
    other = Pipeline("other")
    other.consumer(subscribes=shop.topics)(Reads)

    served = serve([other])

    assert [spec.name for spec in served.specs] == ["other", "shop"]
    assert [each.name for each in served.handlers] == ["other.Reads"]


def test_a_topic_that_no_consumer_reads_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    mail, received = a_pipeline()
    mail.producer(every="5m", publishes=[received])(nothing)

    with caplog.at_level(logging.WARNING, "onward.pipeline"):
        serve([mail])

    (told,) = [vars(record) for record in caplog.records]
    assert (told["event"], told["topic"]) == ("pipeline.unread", "mail.received")


def test_the_problems_of_a_pipeline_are_raised_once_and_then_it_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good("mail")
    Pipeline("empty")
    with pytest.raises(BadPipeline):
        serve(None)

    with caplog.at_level(logging.WARNING, "onward.pipeline"):
        served = serve(None)

    assert [spec.name for spec in served.specs] == ["mail"]
    (told,) = [vars(record) for record in caplog.records]
    assert (told["event"], told["pipeline"]) == ("pipeline.not_served", "empty")
