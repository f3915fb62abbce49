"""Types of the handles that calls return, for annotations."""

from onward.sdk.current import Current
from onward.sdk.inside import ChildRun
from onward.sdk.sync import SyncApp, SyncRun

__all__ = ["ChildRun", "Current", "SyncApp", "SyncRun"]
