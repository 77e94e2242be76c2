"""The broker: connections, dispatch, and a handler for each Kafka API.

Here the wire protocol meets the log. A connection turns bytes into frames and answers into ordered
replies, dispatch finds the handler of a request, handlers speak to partitions. How messages look
belongs to `wire/`, how records are kept to `hot/`; neither knows the other.
"""
