"""The base class of consumers, which gives their methods types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from onward.runtime.pipelines.contexts import MutateContext, NextContext, PrepareContext
    from onward.runtime.pipelines.values import Outcome, Prepared

State = TypeVar("State")
Data = TypeVar("Data")


class Consumer(ABC, Generic[State, Data]):
    """A consumer of a pipeline, as `Consumer[State, Data]`: handles events in three phases.

    `State` is the type of what the consumer remembers from one run to the next, and `Data` the type
    of what `prepare` passes to `mutate` and `next`. Use None for what you do not need. A worker
    builds one instance per process, without arguments. Attributes of it are not stored.

    The base class is optional: `@pipeline.consumer` takes any class with these methods. In a unit
    test, build the class and await its methods.

    Example:
        >>> from onward.pipelines import Consumer, Pipeline, Prepared, PrepareContext
        >>> def define() -> None:  # in your module it needs no function
        ...     shop = Pipeline("shop")
        ...     orders = shop.topic("orders", str)
        ...
        ...     @shop.consumer(subscribes=[orders])
        ...     class Read(Consumer[None, None]):
        ...         async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
        ...             return Prepared(reserve=await ctx.peek(orders, limit=100))
    """

    @abstractmethod
    async def prepare(self, ctx: PrepareContext, state: State | None) -> Prepared[Data]:
        """Choose the events of this run, and what to do with them.

        It may read events and the outside world, and changes nothing.

        Args:
            ctx: Reads the topics that the consumer subscribes to.
            state: What `next` returned last; None at first.
        """

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Data]) -> None:
        """Choose the effect of this run by awaiting it; without this method there is none.

        The method ends at the first effect that it awaits. Onward then performs the effect.
        """

    async def next(
        self,
        ctx: NextContext,  # noqa: ARG002 - for the methods that override this one
        prepared: Prepared[Data],  # noqa: ARG002
        outcome: Outcome,  # noqa: ARG002
    ) -> State | None:
        """Publish what follows; one commit with the end of the run.

        It runs after every preparation, also if no events were reserved.

        Args:
            ctx: Publishes to the topics that the consumer declares.
            prepared: What `prepare` returned.
            outcome: `Applied(result)`, `Nothing()` if no effect was chosen, or `Skipped()`.

        Returns:
            The new state; None leaves it as it is.
        """
        return None
