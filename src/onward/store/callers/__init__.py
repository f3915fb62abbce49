"""Connections that callers bring: one file a driver, none imported before its connection comes."""
