"""Postgres as a database of the store: one statement a batch, over asyncpg."""
