"""One run in the hands of a worker: what its body asked for is done, written, and waited for."""
