"""A question to a node's HTTP side, and in words what went wrong with it."""

import http.client
import json
from typing import Any

from tierlog.cli.failure import Refused, usage
from tierlog.config import Address, InvalidConfig, parse_address

ANSWER_S = 10.0
ADVICE = "give --http the address that the node's ready line has after http="


def address_of(place: str) -> Address:
    try:
        return parse_address(place.removeprefix("http://").rstrip("/"), name="--http", port_min=1)
    except InvalidConfig:
        raise usage(f"--http is '{place}'; it must be HOST:PORT, as 127.0.0.1:8080") from None


def ask(address: Address, path: str) -> tuple[int, str]:
    """The status and the body. Raises `Refused` where nobody answers, or not by HTTP."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except http.client.HTTPException:  # First: that the peer hung up is an OSError as well.
        raise Refused(f"what answers at {address} speaks no HTTP; {ADVICE}") from None
    except OSError as error:
        raise _nobody(address, error) from None
    finally:
        connection.close()
    return answer.status, text


def parsed(text: str) -> dict[str, Any] | None:
    """None: not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def no_node(address: Address) -> Refused:
    return Refused(f"what answers at {address} is no node of tierlog; {ADVICE}")


def _nobody(address: Address, error: OSError) -> Refused:
    if isinstance(error, TimeoutError):
        why = "no answer in time"
    else:
        why = (error.strerror or str(error)).lower()
    return Refused(
        f"nothing answers at {address} ({why}); start a node with `tierlog serve --http {address}`"
        ", or name another address with --http"
    )
