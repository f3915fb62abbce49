"""Pipelines as code declares them, and what clients and operators do with them."""
