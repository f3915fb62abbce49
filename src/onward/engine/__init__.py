"""The use cases, one function each, and the interfaces by which workers and clients reach them."""
