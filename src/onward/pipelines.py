"""Pipelines: topics, producers and consumers for code, and the types that operators get."""

from onward.engine.pipelines.views import (
    DeliveryInfo,
    EventInfo,
    HandlerInfo,
    InputCounts,
    InputInfo,
    InputReport,
    PipelineInfo,
    SkippedInput,
    TopicInfo,
)
from onward.runtime.body.effects import Applied
from onward.runtime.pipelines.contexts import (
    MutateContext,
    NextContext,
    PrepareContext,
    ProducerContext,
)
from onward.runtime.pipelines.values import (
    Event,
    Input,
    Nothing,
    Outcome,
    Prepared,
    Skipped,
    Topic,
)
from onward.sdk.pipelines.consumer import Consumer
from onward.sdk.pipelines.pipeline import Pipeline

__all__ = [
    "Applied",
    "Consumer",
    "DeliveryInfo",
    "Event",
    "EventInfo",
    "HandlerInfo",
    "Input",
    "InputCounts",
    "InputInfo",
    "InputReport",
    "MutateContext",
    "NextContext",
    "Nothing",
    "Outcome",
    "Pipeline",
    "PipelineInfo",
    "PrepareContext",
    "Prepared",
    "ProducerContext",
    "Skipped",
    "SkippedInput",
    "Topic",
    "TopicInfo",
]
