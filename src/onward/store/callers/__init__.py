"""Connections of callers. A driver is imported only for a connection of its own."""
