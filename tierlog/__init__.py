"""tierlog: a Kafka-compatible log server whose home is object storage.

The rooms below and who may import whom are drawn in ARCHITECTURE.md; tests/test_tidy.py keeps the
picture true.
"""
