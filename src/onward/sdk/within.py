"""Starts, signals and events in a transaction of the user's own: they happen when it commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from onward.errors import BadInput
from onward.runtime.registry import note_start
from onward.sdk.pipelines.publishing import EventBatch
from onward.sdk.waits import encode_signal
from onward.sdk.workflow import check_workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from onward.engine.client_engine import ClientEngine
    from onward.engine.within import CallerTransaction
    from onward.runtime.definition import WorkflowDefinition
    from onward.runtime.pipelines.values import Topic
    from onward.runtime.registry import Registry
    from onward.sdk.run import Run
    from onward.sdk.waits import Signal
    from onward.sdk.workflow import Workflow
    from onward.telemetry.observer import Observer

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Within:
    """Starts runs, sends signals and publishes events in your own transaction.

    `App.within` returns this view, which only inserts rows. If you roll back, nothing is started,
    sent or published. Workers see the run, signal or event after your commit.

    On Postgres, these inserts neither wait for Onward's locks nor block other writers.

    On SQLite, once your transaction has written something, it blocks all other writers to the file,
    so commit soon.
    """

    def __init__(
        self,
        engine: ClientEngine,
        transaction: CallerTransaction,
        handle: Callable[[str, str, WorkflowDefinition | None], Run[Any]],
        version: str | None,
        observer: Observer,
        registries: Collection[Registry],
    ) -> None:
        self._engine = engine
        self._transaction = transaction
        self._handle = handle
        self._version = version
        self._observer = observer
        self._registries = registries

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Start a run when you commit; return a handle that you can use after the commit.

        Raises:
            Conflict: the id belongs to a run with a different workflow or arguments. Your
                transaction stays usable.
            Unencodable: an argument cannot be stored.
            StoreUnusable: the connection is to another database, or is not in a transaction.
        """
        check_workflow(workflow)
        if workflow.flow(args, kwargs).declares:
            raise BadInput(
                "limit= and rate=",
                "cannot be declared in your own transaction",
                "Declare them in @workflow, or with app.queues.limit",
            )
        run = workflow.row(args, kwargs, uid=self._engine.new_uid(), version=self._version)
        note_start(workflow.definition, self._registries)
        options = workflow.start_options
        with self._observer.starting(run.name, run.queue) as starting:
            run = run._replace(trace=starting.trace)
            started = await self._transaction.start(run, options.on_conflict)
            run_id = options.id or started.uid
            starting.done(run_id, started.uid, created=started.created)
        return self._handle(started.uid, run_id, workflow.definition)

    async def signal(
        self,
        id: str,  # noqa: A002 - it is the user's word
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the newest run with the given id when you commit.

        Args:
            id: The id of the run.
            signal: The signal, or its name.
            value: The value of the signal.
            message_id: Identifies the message; messages with the same id are delivered only once.

        Raises:
            NotFound: your transaction sees no run with this id.
            RunOver: the run has ended.
            StoreUnusable: the connection is to another database, or is not in a transaction.
        """
        name, payload, own = encode_signal(signal, value, message_id)
        await self._transaction.signal(id, name, payload, message=own)

    async def publish(
        self,
        topic: Topic[T] | str,
        payload: T,
        *,
        id: str,  # noqa: A002 - it is the user's word
        key: str | None = None,
    ) -> None:
        """Publish an event when you commit; see `App.publish`.

        The limits of the topic do not apply: events that you have committed are always delivered.

        Raises:
            NotFound: your transaction sees no such topic. A worker declares the topics of its
                pipelines when it starts; `app.pipelines.declare` does the same without a worker.
            Unencodable: the payload does not match the type of the topic.
            StoreUnusable: the connection is to another database, or is not in a transaction.
        """
        batch = EventBatch(topic, self._engine)
        batch.add(payload, id, key, None)
        await self._transaction.publish(batch.events)
