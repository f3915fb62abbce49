"""What Onward tells about itself, and the named points where tests make it fail.

For users: a log filter and a formatter, the seam for metrics, and what `on_attention` is told.
"""

from onward.telemetry.attention import Attention
from onward.telemetry.logs import JsonFormatter, RunFilter
from onward.telemetry.metrics import Metrics

__all__ = ["Attention", "JsonFormatter", "Metrics", "RunFilter"]
