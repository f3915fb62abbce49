"""Pipelines in a transaction: what runs attach, which runs start, and what follows their ends."""
