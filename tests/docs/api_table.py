"""The table of Kafka APIs in the README, made from the dispatch table.

`python -m tests.docs.api_table` writes it; a test compares.
"""

from pathlib import Path

from tierlog.server import served_apis
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type

README = Path(__file__).parents[2] / "README.md"
BEGIN = "<!-- made by python -m tests.docs.api_table -->"
END = "<!-- end of the table -->"

NOTES = {
    ApiKey.PRODUCE: "acks 0, 1, all; idempotent producers; no transactions yet",
    ApiKey.FETCH: "long poll; sessions are declined, so clients send full fetches",
    ApiKey.LIST_OFFSETS: "by time, earliest, latest, largest timestamp, first local, last tiered",
    ApiKey.METADATA: "creates topics on request unless that is switched off",
    ApiKey.FIND_COORDINATOR: "groups; no transactions yet",
    ApiKey.OFFSET_FETCH: "many groups at once; a group that nobody knows has no offsets",
    ApiKey.INIT_PRODUCER_ID: "for idempotence; transactional ids are refused",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "KIP-848; patterns by RE2; no members of the classic protocol",
    ApiKey.DESCRIBE_LOG_DIRS: "one log directory",
}


def name_of(api: ApiKey) -> str:
    return request_type(api).__name__.removesuffix("Request")


def table() -> str:
    """Markdown, by API key."""
    lines = ["| API (key) | versions | notes |", "| --- | --- | --- |"]
    for row in served_apis():
        name = f"{name_of(row.api)} ({int(row.api)})"
        span = f"{row.version_min}-{row.version_max}"
        if row.version_min == row.version_max:
            span = str(row.version_min)
        lines.append(f"| {name} | {span} | {NOTES.get(row.api, '')} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
