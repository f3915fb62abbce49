"""One store over two databases: runs, histories, inboxes, leases, the ledger and deliveries."""

from onward.store.commit import Attachments, Commit
from onward.store.database import Wanted
from onward.store.store import Outcome, Store, Writer, open_store

__all__ = ["Attachments", "Commit", "Outcome", "Store", "Wanted", "Writer", "open_store"]
