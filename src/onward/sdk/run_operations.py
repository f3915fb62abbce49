"""What an app does with runs that exist: find, list, signal, cancel, pause, retry and fork them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import encode
from onward.core.instant import duration
from onward.engine.client_engine import RunKey
from onward.engine.payloads import pack
from onward.engine.search import RunPage
from onward.model.run_filter import RunQuery
from onward.sdk import step as steps
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
        """Return a handle on the newest run of an id.

        Raises:
            NotFound: there is none.
        """
        found = await self._engine.newest(id)
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
        """Return runs, newest first; `before` is the uid of the last one of the page before.

        Args:
            name: Those of one workflow.
            state: Those in one state, without those that were retried, forked or continued
                under their id: a run whose retry goes on is not listed as failed.
            queue: Those of one queue.
            kind: Those of one kind: "workflow", "step" (sent elsewhere), "map" (a part of one).
            tag: Those with this tag.
            attributes: Those with these attributes. No index has them: the runs that match all
                else are scanned, newest first, until there are enough.
            parent: Those that this run has started, by its id or uid.
            root: This run, all that it has started, and all below.
            children: False leaves out what was started by other runs.
            limit: How many at most.
            before: Continue after the last one of a page.

        Raises:
            BadInput: there is no such state or kind, or the limit is negative.
            NotFound: there is no such parent or root.
        """
        return await self._engine.list_runs(
            RunQuery(name, state, queue, kind, tag, children),
            RunPage(limit, before),
            {said: [value] for said, value in (attributes or {}).items()},
            parent=parent,
            root=root,
        )

    async def counts(self) -> dict[str, int]:
        """Return how many runs are in each state, without runs that others have replaced."""
        return await self._engine.counts()

    async def signal(
        self,
        id: str,  # noqa: A002 - it is the user's word
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the newest run of an id; see `Run.signal`.

        Raises:
            NotFound: there is none.
            RunOver: it has ended.
        """
        await send_signal(self._engine, id, signal, value, message_id)

    async def cancel(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        force: bool = False,
        grace: DurationLike | None = None,
    ) -> Cancelling:
        """Cancel the newest run of an id; see `Run.cancel`."""
        allowed = None if grace is None else duration(grace)
        return await self._engine.cancel(id, force=force, grace=allowed)

    async def pause(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Pause the newest run of an id.

        Steps that run finish; then the run is paused until it is resumed or cancelled. So are the
        runs that work for it: chunks of its maps, steps that run elsewhere, and children that are
        cancelled with it. Return False if it has ended, or is being cancelled.
        """
        return await self._engine.pause(id)

    async def resume(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Resume a paused run; return False if it has already ended.

        What its pause held continues as well, unless another paused run holds that too.
        """
        return await self._engine.resume(id)

    async def retry(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        force: bool = False,
    ) -> Run[Any]:
        """Run again what failed: a new run under the same id, from the call that failed on.

        Completed work is not repeated, including in parallel branches. Only code that ran because
        of the error, such as cleanup, runs again.

        Args:
            id: The run.
            force: Retry it also if it made effects because of the error: they are not sent again,
                and what was done before the error counts as done, even if they have undone it.
                Retry it also if it sends the effects of a forked child again.

        Raises:
            RunOver: it is still open or succeeded, it is paused and can be resumed, or another run
                has taken its place.
            Undone: it made effects because of the error, as a saga does that undoes what was done.
            WouldResend: it would start a child again that was forked and has sent effects.
        """
        return self._handle(await self._engine.retry(id, force=force))

    async def fork(
        self,
        id: str,  # noqa: A002 - it is the user's word
        step: str | None = None,
        *,
        result: Any = UNCHANGED,
        new_id: str | None = None,
        resend: bool = False,
    ) -> Run[Any]:
        """Run again from a step on, in a new run that begins with the history before it.

        Effects from there on are other effects to a fork: they are sent again, under new keys.

        Args:
            id: The run, which must be over or paused unless `new_id` is given.
            step: The name or the identity of the step; None keeps the whole history.
            result: What the step is to have returned; by default it runs again.
            new_id: An id for the new run; by default it takes the place of the old one.
            resend: Whether effects may be sent again that have happened, or may have. An effect
                that is named as the step is sent again in any case, unless a result is given.

        Raises:
            NotFound: history has no such step.
            BadInput: the `new_id` cannot be an id of a run.
            Conflict: another run has the `new_id`.
            WouldResend: it would send effects again, of the run or of its children.
            RunOver: another run has taken its place, or it is still running.
        """
        edited = None
        if step is not None and result is not UNCHANGED:
            edited = _encoded(await self._engine.find_call(id, step), result)
        return self._handle(
            await self._engine.fork(id, step, result=edited, new_id=new_id, resend=resend)
        )

    async def why(self, id: str) -> list[Blocker]:  # noqa: A002 - it is the user's word
        """Return what keeps the newest run of an id from running, and the next move for each.

        Raises:
            NotFound: there is none.
        """
        return await self._engine.why(id)

    async def unserved(self) -> list[UnservedRun]:
        """Return runs that could continue, but that no live worker can take, and why."""
        return await self._engine.unserved()

    def _handle(self, key: RunKey) -> Run[Any]:
        same = registered.get(key.name)
        return self._new_handle(key.uid, key.id, same[-1] if same else None)

    def _new_handle(self, uid: str, run_id: str, definition: WorkflowDefinition | None) -> Run[Any]:
        return Run(uid, run_id, self._engine, definition)


def _encoded(step: str, value: Any) -> bytes:
    """Return a result as a step of that name would have given it."""
    same = steps.registered.get(step)
    if same:
        return pack(same[-1].shape.encode_result(value))
    return pack(encode(value, path=f"the result of {step}"))
