"""What the code of a run asks for, and how it is handed what history has: no I/O, no waiting."""
