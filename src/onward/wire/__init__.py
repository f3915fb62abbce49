"""The engine over gRPC: messages and their conversions, and the engines of remote apps and workers.

Only this package and `onward.server` need gRPC; `import onward` loads neither.
"""
