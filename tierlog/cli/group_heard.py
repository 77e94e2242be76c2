"""Lag for commands that ask a cluster by Kafka's protocol: what its HTTP side says beside that.

It is an addition: where nobody answers there, or a node of another cluster, that is said, and the
command goes on without.
"""

from typing import Any

from tierlog.cli.asking import address_of
from tierlog.cli.failure import Refused, say
from tierlog.cli.group_lag import look
from tierlog.config import Address


def heard(http: str, cluster_id: str | None, group: str | None = None) -> dict[str, Any] | None:
    """As `/lag` has it, of one group or of all; None: it cannot be had."""
    address = address_of(http)
    try:
        answer = look(address, group)
        check_cluster(answer, cluster_id, address)
    except Refused as refusal:
        say(f"lag is not known: {refusal}")
        return None
    return answer


def check_cluster(answer: dict[str, Any], cluster_id: str | None, address: Address) -> None:
    """Groups of another cluster may have the same names."""
    if answer.get("cluster_id", cluster_id) != cluster_id:
        raise Refused(
            f"the node at {address} is one of another cluster; name one of this with --http"
        )
