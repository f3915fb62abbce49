"""Handlers of pipelines: what they are given, what they return, and how their runs execute."""
