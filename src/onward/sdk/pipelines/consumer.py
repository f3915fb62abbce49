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
    """A pipeline consumer, written as `Consumer[State, Data]`. It handles events in three phases.

    `State` is the type of the state that the consumer keeps from one run to the next. `Data` is the
    type of the data that `prepare` passes to `mutate` and `next`. Use None for either type if you
    do not need it. A worker process creates one instance, without arguments. The attributes of the
    instance are not stored.

    The base class is optional: `@pipeline.consumer` accepts any class with these methods. In a unit
    test, create an instance and await its methods.

    Example:
        >>> from onward.pipelines import Consumer, Pipeline, Prepared, PrepareContext
        >>> def define() -> None:  # in your own code, do this at module level
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
        """Choose the events that this run handles, and what to do with them.

        This method may read events and read from the outside world, but must not change anything.

        Args:
            ctx: The context, which reads the topics that the consumer subscribes to.
            state: The state that the last `next` returned; None in the first run.
        """

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Data]) -> None:
        """Choose the effect of this run by awaiting it.

        The method ends at the first effect that it awaits, and Onward then carries out the effect.
        A consumer without this method sends no effect.
        """

    async def next(
        self,
        ctx: NextContext,  # noqa: ARG002 - for the methods that override this one
        prepared: Prepared[Data],  # noqa: ARG002
        outcome: Outcome,  # noqa: ARG002
    ) -> State | None:
        """Publish further events, in the commit that ends the run.

        This method runs after every `prepare`, even if no events were reserved.

        Args:
            ctx: The context, which publishes to the topics that the consumer declares.
            prepared: What `prepare` returned.
            outcome: `Applied(result)`, `Nothing()` if no effect was chosen, or `Skipped()`.

        Returns:
            The new state; None keeps the old state.
        """
        return None
