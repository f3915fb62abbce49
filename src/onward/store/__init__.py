"""One store over two databases: runs, histories, inboxes, leases, the ledger and deliveries."""

from onward.store.database import Wanted
from onward.store.runs.following import Followed, Following
from onward.store.runs.stopping import Stopped
from onward.store.store import Store, open_store
from onward.store.writing.commit import Attachments, Commit
from onward.store.writing.writer import Outcome, Writer

__all__ = [
    "Attachments",
    "Commit",
    "Followed",
    "Following",
    "Outcome",
    "Stopped",
    "Store",
    "Wanted",
    "Writer",
    "open_store",
]
