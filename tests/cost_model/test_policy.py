"""Policies as operators apply them."""

import pytest

from cost_model import CostError, from_dict
from cost_model.policy import lifecycle, topic_settings


def rule_of(**tiering: object) -> dict[str, object]:
    made = from_dict({"workload": {"retention": "1 year"}, "tiering": tiering})
    (rule,) = lifecycle(made)["Rules"]
    assert isinstance(rule, dict)
    return rule


def test_every_class_after_the_first_is_a_transition() -> None:
    rule = rule_of(
        classes=[
            {"class": "STANDARD"},
            {"class": "STANDARD_IA", "after": "30 d"},
            {"class": "GLACIER_FLEXIBLE", "after": "90 d"},
        ]
    )
    assert rule["Transitions"] == [
        {"Days": 30, "StorageClass": "STANDARD_IA"},
        {"Days": 90, "StorageClass": "GLACIER"},
    ]


def test_uploads_that_never_ended_are_cleared_and_nothing_is_deleted() -> None:
    rule = rule_of()
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert "Transitions" not in rule
    assert "Expiration" not in rule


def test_noncurrent_versions_expire_where_versioning_keeps_them() -> None:
    assert rule_of(noncurrent="36 h")["NoncurrentVersionExpiration"] == {"NoncurrentDays": 2}


def test_a_class_that_no_rule_can_reach_is_refused() -> None:
    with pytest.raises(CostError, match="EXPRESS_ONE_ZONE"):
        rule_of(classes=[{"class": "STANDARD"}, {"class": "EXPRESS_ONE_ZONE", "after": "1 d"}])


def test_topic_settings_are_kafkas_names_in_kafkas_units() -> None:
    assert topic_settings(from_dict({})) == {
        "remote.storage.enable": "true",
        "retention.ms": "604800000",
        "local.retention.ms": "600000",
        "segment.bytes": "134217728",
        "segment.ms": "3600000",
        "tierlog.table.enable": "true",
    }
