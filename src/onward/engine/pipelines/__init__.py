"""Pipelines: declared, published to, and operated."""
