"""Kafka's operations as bits of an authorized-operations field (KIP-430).

Until there are access rules everybody may do everything, and is told so.
"""

from typing import Final

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(3, 9)
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(9, 13)


def bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ON_TOPIC: Final = bits(
    READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
)
ON_CLUSTER: Final = bits(
    CREATE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
)
NOT_ASKED: Final = -2147483648
"""Nobody wanted to know."""
