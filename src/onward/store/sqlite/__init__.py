"""SQLite as a database of the store: one writer thread a file, a few readers, group commit."""
