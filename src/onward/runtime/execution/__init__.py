"""One run in a worker: the calls of its body are executed, recorded and awaited."""
