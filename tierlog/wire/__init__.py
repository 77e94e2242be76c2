"""The Kafka wire protocol: messages, headers, frames, the table of versions.

Pure: bytes in, values out. `messages/` holds one typed class per request and response, written in
the small language of `schema`; `compiler` turns each (message, version) into a fast reader and
writer at first use; `produce` and `fetch` are the hand-written paths for the two
messages that carry the data.
What a request means, and whether it is allowed, belongs to `broker/` and the rooms behind it.
"""
