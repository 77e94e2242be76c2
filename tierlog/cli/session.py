"""A command's conversation with a cluster: connect, do the work, say in words what failed."""

import asyncio
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TypeVar

from tierlog.cli.failure import Refused, usage
from tierlog.client import BrokerError, Client, ClientSettings, NotConnected
from tierlog.client.router import UNREACHED
from tierlog.config import Address, parse_address
from tierlog.env import local_env
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import MetadataResponseTopic

T = TypeVar("T")

CONNECT_S = 5.0
DEADLINE_S = 30.0
"""Shorter than what programs wait: a person sits there."""


def with_client(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run the work on a client that has reached a broker."""
    addresses = [_address(each) for each in bootstrap.split(",")]
    return asyncio.run(_connected(addresses, work))


def _address(text: str) -> Address:
    _, found, rest = text.partition("://")
    if found:
        raise usage(
            f"--bootstrap is '{text}'; it is no URL: write {rest.rstrip('/') or 'HOST:PORT'}"
        )
    return parse_address(text, name="--bootstrap", port_min=1)


async def _connected(addresses: list[Address], work: Callable[[Client], Awaitable[T]]) -> T:
    env = local_env()
    settings = ClientSettings(
        client_id="tierlog-cli", connect_timeout_s=CONNECT_S, deadline_s=DEADLINE_S
    )
    places = [(each.host, each.port) for each in addresses]
    async with Client(places, clock=env.clock, rng=env.rng, settings=settings) as client:
        try:
            await client.router.any_connection()
        except NotConnected as error:
            raise _nobody(addresses, error) from None
        return await work(client)


def _nobody(addresses: list[Address], error: NotConnected) -> Refused:
    """With the cause: a misspelt name calls for something else than a broker that is down."""
    if len(addresses) == 1:
        where, why = str(addresses[0]), str(error).removeprefix(f"{UNREACHED}: {addresses[0]}: ")
    else:
        where, why = "any address", str(error).removeprefix(f"{UNREACHED}: ")
    return Refused(
        f"no broker answers at {where} ({why}); start one with `tierlog serve`, or name another "
        "with --bootstrap"
    )


async def known_topic(client: Client, name: str, *, to_fill: bool = True) -> MetadataResponseTopic:
    """The topic as the cluster describes it; refused with the nearest name if there is none.

    `to_fill`: whoever asks might as well create it.
    """
    answer = await client.metadata([name])
    found = next((each for each in answer.topics if each.name == name), None)
    if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise await _no_topic(client, name, to_fill=to_fill)
    if found.error_code:
        raise BrokerError(found.error_code, f"topic {name}")
    return found


async def _no_topic(client: Client, name: str, *, to_fill: bool) -> Refused:
    every = await client.metadata(None)
    names = [each.name for each in every.topics if each.name and not each.is_internal]
    close = get_close_matches(name, names, n=1)
    if close:
        hint = f"did you mean {close[0]}?"
    elif to_fill:
        hint = f"`tierlog topic create {name}` makes one"
    else:
        hint = "`tierlog topic list` shows which there are"
    return Refused(f"there is no topic {name}; {hint}")
