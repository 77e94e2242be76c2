"""A part of a topic's cold history as Parquet, by the job that users have."""


def convert_share(store: str, topic: str, share: float) -> None:
    """So much of each partition's segments, from the beginning on."""
