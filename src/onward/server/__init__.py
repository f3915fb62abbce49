"""The server: gives clients and workers in other processes and languages access to a database.

It speaks gRPC. What it holds per namespace is a `Hub`, and per connected worker a `StreamSession`.
Servers are stateless: a worker reconnects to any of them and continues with its runs.
"""
