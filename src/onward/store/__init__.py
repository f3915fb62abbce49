"""One store over two databases: runs, histories, inboxes, leases, the ledger and deliveries."""

from onward.model.claims import Wanted
from onward.model.commits import Attachments, Commit, CommitOutcome
from onward.model.following import Followed, Following
from onward.model.stopping import Stopped
from onward.store.opening import open_store
from onward.store.store import Store
from onward.store.writing.group_commit import GroupCommit
from onward.store.writing.writer import Writer

__all__ = [
    "Attachments",
    "Commit",
    "CommitOutcome",
    "Followed",
    "Following",
    "GroupCommit",
    "Stopped",
    "Store",
    "Wanted",
    "Writer",
    "open_store",
]
