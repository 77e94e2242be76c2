"""Record batches, format version 2: the unit that tierlog stores, replicates, uploads and serves.

Here live the header and its checks, the records inside, compression, control batches, the search by
time inside one batch, and the rules by which a client picks a partition. Pure: bytes in, values or
bytes out. Where a batch is stored belongs to `hot/` and `cold/`; how a request carries it belongs
to `wire/`.
"""
