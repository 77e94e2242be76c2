"""A scenario's policy as what operators apply: topic and node settings, S3 lifecycle rules.

No rule deletes: tierlog expires what its manifests no longer name. One rule moves objects, and only
those of 128 KiB and more; the other clears away what uploads and versions left behind.
"""

from typing import Any

from cost_model.errors import CostError
from cost_model.moves import LEAST_BYTES, S3_NAMES, days, moves, refused
from cost_model.scenario import Scenario, Stage
from cost_model.units import DAY

ABORT_DAYS = 7
UNREADABLE = (
    "{name} cannot be read by tierlog, which never asks for a restore: consumers, replays, the "
    "table and the scrubber fail at that age until somebody restores objects by hand"
)


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
    tiering = scenario.tiering
    for problem in refused(tiering.classes):
        raise CostError(problem)
    clear: dict[str, Any] = {
        "ID": f"tierlog {scenario.name}: leftovers",
        "Status": "Enabled",
        "Filter": {"Prefix": prefix},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ABORT_DAYS},
    }
    if tiering.noncurrent:
        kept = max(1, -int(-tiering.noncurrent // DAY))
        clear["NoncurrentVersionExpiration"] = {"NoncurrentDays": kept}
    made = [_move(stage) for stage in moves(tiering.classes)]
    move = {
        "ID": f"tierlog {scenario.name}: moves",
        "Status": "Enabled",
        # S3 takes no uploads that ended half way by their size: hence two rules.
        "Filter": {"And": {"Prefix": prefix, "ObjectSizeGreaterThan": LEAST_BYTES - 1}},
        "Transitions": made,
    }
    return {"Rules": [clear, move] if made else [clear]}


def _move(stage: Stage) -> dict[str, Any]:
    return {"Days": days(stage), "StorageClass": S3_NAMES[stage.storage_class]}


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))
