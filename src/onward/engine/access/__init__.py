"""Namespaces and API keys: administration, authentication, and limits of a server's clients."""
