"""The cold tier: sealed segments in the object store behind a manifest.

Segment objects and the manifest are values with a format of their own (`docs/format/`); the
publisher makes a manifest visible by compare-and-swap, the uploader feeds it from the local log.
Nothing here knows the wire protocol, and nothing reads cold records for consumers: that is
`fetchproxy/`.
"""
