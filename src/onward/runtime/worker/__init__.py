"""The worker: it claims runs, executes them under its lease, and gives them back when it leaves."""
