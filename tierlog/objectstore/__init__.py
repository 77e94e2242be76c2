"""The object store: one port, its adapters and its wrappers.

Everything tierlog keeps for years lies behind this port: S3 and what speaks like it, a folder (the
embedded default), memory. Wrappers of the same port add retries, counting, rate limits and faults.
What the objects mean is the business of `cold/` and `table/`; no error of a client library leaves
this room.
"""
