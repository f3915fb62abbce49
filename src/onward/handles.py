"""Types of what calls return, for annotations."""

from onward.engine.views import Blocker, HistoryEvent
from onward.sdk.current import Current
from onward.sdk.inside import ChildRun
from onward.sdk.sync import SyncApp, SyncRun
from onward.sdk.workers import WorkerInfo

__all__ = [
    "Blocker",
    "ChildRun",
    "Current",
    "HistoryEvent",
    "SyncApp",
    "SyncRun",
    "WorkerInfo",
]
