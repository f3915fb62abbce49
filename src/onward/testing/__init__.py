"""The test kit: a real Postgres, a virtual clock, faults on command, a lossy network."""
