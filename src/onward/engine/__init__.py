"""The use cases: each function asks the core and writes to the store. No loops, no transport."""
