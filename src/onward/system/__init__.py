"""The machine: its clock, randomness, threads and processes, behind the ports of `core`."""
