"""Finding out whether spans are wanted, without paying for it if they are not.

OpenTelemetry is not imported unless the application has imported it, and nothing is done
unless a tracer provider is set.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from onward.telemetry.guard import Guard
    from onward.telemetry.spans import Spans


class Tracing:
    """Where spans come from, as soon as the user has set a tracer provider.

    Args:
        guard: Receives what OpenTelemetry raises.
        provider: Makes the spans; by default OpenTelemetry's global one.
    """

    def __init__(self, guard: Guard, provider: TracerProvider | None = None) -> None:
        self._guard = guard
        self._provider = provider
        self._spans: Spans | None = None

    def spans(self) -> Spans | None:
        """Return what makes spans, if they are wanted. The user may set a provider at any time."""
        # Not imported: so no provider can have been set.
        if self._spans is None and "opentelemetry.trace" in sys.modules:
            with self._guard.harmless("get_tracer"):
                self._spans = self._find()
        return self._spans

    def _find(self) -> Spans | None:
        from opentelemetry import trace

        provider = self._provider or trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
        tracer = provider.get_tracer("onward")
        if isinstance(tracer, trace.NoOpTracer):
            return None
        from onward.telemetry.spans import Spans

        return Spans(tracer, self._guard)
