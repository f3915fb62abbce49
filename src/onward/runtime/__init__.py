"""Runs in motion: the loop a body runs on, the execution of one run, and the worker."""
