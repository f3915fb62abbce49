"""One store over two databases: runs, histories, inboxes, leases, the ledger and deliveries."""

from onward.model.claims import Wanted
from onward.model.commits import Attachments, Commit, CommitOutcome
from onward.model.following import Followed, Following
from onward.model.stopping import Stopped
from onward.store.store import Store, open_store
from onward.store.writing.writer import Writer

__all__ = [
    "Attachments",
    "Commit",
    "CommitOutcome",
    "Followed",
    "Following",
    "Stopped",
    "Store",
    "Wanted",
    "Writer",
    "open_store",
]
