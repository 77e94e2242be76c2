"""A scenario's policy as what operators apply: topic settings and an S3 lifecycle configuration.

No rule deletes: tierlog expires what its manifests no longer name. Rules move, and clear away what
uploads left behind.
"""

import math
from typing import Any

from cost_model.errors import CostError
from cost_model.scenario import Scenario
from cost_model.units import DAY

S3_NAMES = {
    "STANDARD_IA": "STANDARD_IA",
    "ONEZONE_IA": "ONEZONE_IA",
    "INTELLIGENT_TIERING": "INTELLIGENT_TIERING",
    "GLACIER_IR": "GLACIER_IR",
    "GLACIER_FLEXIBLE": "GLACIER",
    "DEEP_ARCHIVE": "DEEP_ARCHIVE",
}
ABORT_DAYS = 7


def topic_settings(scenario: Scenario) -> dict[str, str]:
    """As `tierlog topic create --config` takes them."""
    tiering = scenario.tiering
    return {
        "remote.storage.enable": str(tiering.enabled).lower(),
        "retention.ms": _ms(scenario.workload.retention),
        "local.retention.ms": _ms(tiering.local_retention),
        "segment.bytes": str(round(tiering.segment)),
        "segment.ms": _ms(tiering.roll),
        "tierlog.table.enable": str(scenario.parquet.enabled).lower(),
    }


def node_settings(scenario: Scenario) -> dict[str, str]:
    """As `tierlog serve --set` takes them."""
    every = scenario.tiering.scrub_every
    scrub = {"tierlog.scrub.byte.period.ms": _ms(every)} if every else {}
    return {"tierlog.cache.bytes": str(round(scenario.reads.cache)), **scrub}


def lifecycle(scenario: Scenario, *, prefix: str = "") -> dict[str, Any]:
    """For `aws s3api put-bucket-lifecycle-configuration`."""
    rule: dict[str, Any] = {
        "ID": f"tierlog {scenario.name}",
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ABORT_DAYS},
    }
    moves = [
        {"Days": math.ceil(stage.after / DAY), "StorageClass": _s3_name(stage.storage_class)}
        for at, stage in enumerate(scenario.tiering.classes)
        # Objects are written as STANDARD: where the first class is another, a rule moves them.
        if at or stage.storage_class in S3_NAMES
    ]
    if moves:
        rule["Transitions"] = moves
    if scenario.tiering.noncurrent:
        days = max(1, math.ceil(scenario.tiering.noncurrent / DAY))
        rule["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    return {"Rules": [rule]}


def _s3_name(storage_class: str) -> str:
    if storage_class not in S3_NAMES:
        raise CostError(f"no lifecycle rule can move objects to {storage_class}")
    return S3_NAMES[storage_class]


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))
