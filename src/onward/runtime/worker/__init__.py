"""The worker: it claims runs, keeps them and its lease, and gives them back when it leaves."""
