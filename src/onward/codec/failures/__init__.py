"""Exceptions as data: how they are stored, and how they come back."""
