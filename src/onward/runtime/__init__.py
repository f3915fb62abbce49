"""Runs in motion: `body` asks, `execution` does and writes, `attempts` run code, `worker` owns.

Each imports what stands before it in this sentence.
"""
