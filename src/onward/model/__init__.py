"""The data that the engine and the stores exchange: rows, commits, moves and outcomes.

Rows are named tuples because they are the hot path: one is made per step, goes to SQLite as it is
and is turned into columns for Postgres by one `zip`. Fields stand in the order of the columns.
Payloads are bytes that carry the tag of their codec; the store never looks into them.

A field that ends in `_in` is a duration from the commit's own time; the database adds its clock,
so that no worker's clock ever decides when something is due.
"""
