"""What an app does with runs that exist: find, list, signal, cancel, pause, retry and fork them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import encode
from onward.core.instant import duration
from onward.engine.bulk import BULK_WORKFLOW
from onward.engine.client_engine import RunKey
from onward.engine.payloads import pack
from onward.engine.search import RunPage
from onward.model.run_filter import RunQuery
from onward.sdk import step as steps
from onward.sdk.bulk_workflow import BulkWorkflow
from onward.sdk.given import check_texts, given_id, list_runs
from onward.sdk.run import UNCHANGED, Run, send_signal
from onward.sdk.workflow import registered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.core.instant import DurationLike
    from onward.engine.client_engine import ClientEngine
    from onward.engine.sending import Cancelling
    from onward.engine.views import Blocker, UnservedRun
    from onward.runtime.definition import WorkflowDefinition
    from onward.sdk.run import RunInfo
    from onward.sdk.waits import Signal


class RunOperations:
    """The operations of an `App` on runs by their ids."""

    @property
    def _engine(self) -> ClientEngine:
        raise NotImplementedError

    async def get(self, id: str) -> Run[Any]:  # noqa: A002 - it is the user's word
        """Return a handle for the newest run with the given id.

        Raises:
            NotFound: no run has this id.
        """
        found = await self._engine.newest(given_id(id))
        return self._handle(RunKey(found.uid, found.id, found.name))

    async def runs(  # noqa: PLR0913 - each narrows the list in a way of its own
        self,
        *,
        name: str | None = None,
        state: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        parent: str | None = None,
        root: str | None = None,
        children: bool = True,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunInfo]:
        """Return the runs that match all filters, newest first.

        Args:
            name: The name of the workflow.
            state: The state, such as "failed". With this filter, a run that was retried, forked or
                continued under its id is left out, because the new run replaces it.
            queue: The queue.
            kind: The kind: "workflow", "step" (a routed step), "map" (a map chunk), "producer" or
                "consumer".
            tag: A tag of the run.
            attributes: Attributes of the run. They are not indexed: Onward scans the runs that
                match the other filters, newest first.
            parent: The id or uid of a run; only the runs that it started are returned.
            root: The id or uid of a run; only this run and its descendants are returned.
            children: Whether to include runs that other runs started.
            limit: The maximum number of runs.
            before: The uid of the last run on the previous page.

        Raises:
            BadInput: there is no such state or kind, the tag is not valid, both `parent` and `root`
                are given, the limit is not a whole number or is negative, or a filter is not a
                string.
            NotFound: there is no such parent or root.
        """
        check_texts(
            name=name, state=state, queue=queue, kind=kind, tag=tag, parent=parent, root=root
        )
        check_texts(before=before)
        return await list_runs(
            self._engine,
            RunQuery(name, state, queue, kind, tag, children),
            RunPage(limit, before),
            {said: [value] for said, value in (attributes or {}).items()},
            parent=parent,
            root=root,
        )

    async def counts(self) -> dict[str, int]:
        """Return the number of runs in each state.

        A run that was retried, continued, forked or replaced under its id is not counted; the new
        run is. Counting stops at 10,000 runs per state, so 10,000 means 10,000 or more.
        """
        return await self._engine.counts()

    async def signal(
        self,
        id: str,  # noqa: A002 - it is the user's word
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the newest run with the given id; see `Run.signal`.

        Raises:
            NotFound: no run has this id.
            RunOver: the run has ended.
        """
        await send_signal(self._engine, given_id(id), signal, value, message_id)

    async def cancel(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        force: bool = False,
        grace: DurationLike | None = None,
    ) -> Cancelling:
        """Cancel the newest run with the given id; see `Run.cancel`."""
        allowed = None if grace is None else duration(grace)
        return await self._engine.cancel(given_id(id), force=force, grace=allowed)

    async def pause(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Pause the newest run with the given id.

        Calls in progress are allowed to finish. The run then stays paused until it is resumed or
        cancelled, and so do its dependent runs: map chunks, routed steps, and children that would
        be cancelled with it.

        Returns:
            False if the run has ended or is being cancelled.
        """
        return await self._engine.pause(given_id(id))

    async def resume(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Resume a paused run; return False if the run has already ended.

        Dependent runs that the pause held also continue, unless another paused run holds them.
        """
        return await self._engine.resume(given_id(id))

    async def retry(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        force: bool = False,
    ) -> Run[Any]:
        """Retry a failed run: a new run, with the same id, continues from the failed call.

        Completed work is not repeated, not even in parallel branches. Only code that ran
        because of the error, such as cleanup, runs again.

        Args:
            id: The id of the run.
            force: Whether to retry the run even if it sent effects because of its error. These
                effects are not sent again, and work completed before the error is not repeated,
                even if the effects have undone it. With `force`, a retry may also resend the
                effects of a forked run below this one.

        Raises:
            RunOver: the run has succeeded, is still open, or has been replaced by another run. A
                paused run can be retried, unless an operator paused it or one of its effects is
                uncertain.
            Undone: the run sent effects because of its error, as a saga does to undo its work.
            WouldResend: the retry would restart a forked run below this one, and resend the effects
                of the fork.
        """
        return self._handle(await self._engine.retry(given_id(id), force=force))

    async def fork(
        self,
        id: str,  # noqa: A002 - it is the user's word
        step: str | None = None,
        *,
        result: Any = UNCHANGED,
        new_id: str | None = None,
        resend: bool = False,
    ) -> Run[Any]:
        """Start a new run that keeps the history of an existing run up to a given step.

        Effects from that step on are sent again, with new keys.

        Args:
            id: The id of the run. The run must have ended or be paused, unless you pass `new_id`.
            step: The name or identity of the step; None keeps the whole history.
            result: A result to record for the step; by default, the step runs again.
            new_id: An id for the new run; by default, the new run replaces the old run under the
                same id.
            resend: Whether effects that happened, or may have happened, may be sent again. An
                effect that you pass as `step` is always sent again, unless you pass a result.

        Raises:
            NotFound: the history has no such step.
            BadInput: `new_id` is not a valid id.
            Conflict: another run already has the id `new_id`.
            WouldResend: the fork would resend effects of the run or of its children.
            RunOver: the run has been replaced by another run, is open and not paused, or is paused
                because one of its effects is uncertain.
        """
        given_id(id)
        check_texts(step=step, new_id=new_id)
        edited = None
        if step is not None and result is not UNCHANGED:
            edited = _encoded(await self._engine.find_call(id, step), result)
        return self._handle(
            await self._engine.fork(id, step, result=edited, new_id=new_id, resend=resend)
        )

    async def why(self, id: str) -> list[Blocker]:  # noqa: A002 - it is the user's word
        """Return why the newest run with the given id is not proceeding, and what to do about it.

        Raises:
            NotFound: no run has this id.
        """
        return await self._engine.why(given_id(id))

    async def unserved(self) -> list[UnservedRun]:
        """Return the runs that could continue but that no live worker can take, and why.

        This includes runs whose worker has died.
        """
        return await self._engine.unserved()

    def _handle(self, key: RunKey) -> Run[Any]:
        same = registered.get(key.name)
        if key.name == BULK_WORKFLOW:
            same = [BulkWorkflow(self._engine).definition]
        return self._new_handle(key.uid, key.id, same[-1] if same else None)

    def _new_handle(self, uid: str, run_id: str, definition: WorkflowDefinition | None) -> Run[Any]:
        return Run(uid, run_id, self._engine, definition)


def _encoded(step: str, value: Any) -> bytes:
    """Return a result as a step of that name would have given it."""
    same = steps.registered.get(step)
    if same:
        return pack(same[-1].shape.encode_result(value))
    return pack(encode(value, path=f"the result of {step}"))
