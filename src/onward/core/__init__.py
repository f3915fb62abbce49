"""The rules: pure functions and frozen facts, without clock, randomness or outside.

Time, ids and random numbers come in as arguments. A machine takes a fact and returns a decision,
and has an answer for every pair of state and fact.
"""
