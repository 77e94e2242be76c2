"""What every client is driven through, and what must come out of it."""

from collections.abc import Callable, Mapping

from tests.compat.clients import ALL_CODECS, IDEMPOTENT, Client, Message

TOPIC = "orders"

MESSAGES = tuple(
    # Long enough that every codec makes it smaller: clients send what does not shrink as it is.
    Message(b"key-%d" % number, b"a value that repeats itself, " * 8 + b"%d" % number)
    for number in range(3)
)
NULLS = (Message(None, b"no key"), Message(b"no value", None))

Flow = Callable[[Client, str], None]


def messages_for(client: Client) -> tuple[Message, ...]:
    return MESSAGES + NULLS if client.nulls else MESSAGES


def _round_trip(codec: str, *, acks: str, group: str | None) -> Flow:
    def flow(client: Client, server: str) -> None:
        sent = messages_for(client)
        client.produce(server, TOPIC, sent, codec=codec, acks=acks)
        assert tuple(client.consume(server, TOPIC, len(sent), group=group)) == sent

    return flow


def _transaction(client: Client, server: str) -> None:
    client.transact(server, TOPIC, MESSAGES)


def _admin(client: Client, server: str) -> None:
    client.administer(server, "made-by-admin")


FLOWS: Mapping[str, Flow] = {
    **{f"codec {codec}": _round_trip(codec, acks="1", group=None) for codec in ALL_CODECS},
    "acks 0": _round_trip("none", acks="0", group=None),
    "acks all": _round_trip("none", acks="all", group=None),
    "idempotent and group": _round_trip("lz4", acks=IDEMPOTENT, group="readers"),
    "transaction": _transaction,
    "admin": _admin,
}
CLASSIC_FLOWS = ("codec none", "codec zstd", "idempotent and group", "transaction", "admin")
"""Those driven a second time against a broker without flexible versions."""
