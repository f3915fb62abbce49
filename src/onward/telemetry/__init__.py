"""Logs, metrics, spans and alerts, and the named points where tests make the engine fail.

For users: a log filter and a formatter, the seam for metrics, and what `on_attention` receives.
"""

from onward.telemetry.attention import Attention
from onward.telemetry.logs import JsonFormatter, RunFilter
from onward.telemetry.metrics import Metrics

__all__ = ["Attention", "JsonFormatter", "Metrics", "RunFilter"]
