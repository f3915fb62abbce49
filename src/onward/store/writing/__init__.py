"""Group commit: what a worker writes, checked, gathered into batches, and known when repeated."""
