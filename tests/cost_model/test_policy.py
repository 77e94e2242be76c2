"""Policies as operators apply them."""

from typing import Any

import pytest

from cost_model import CostError, from_dict, plan
from cost_model.moves import READABLE, S3_NAMES
from cost_model.policy import lifecycle, topic_settings
from infra.minio import lifecycle as bucket_rules
from infra.minio.lifecycle import losing_rules
from tests.cost_model.support import bill, part


def rules_of(**tiering: object) -> list[dict[str, Any]]:
    made = from_dict({"workload": {"retention": "1 year"}, "tiering": tiering})
    rules: list[dict[str, Any]] = lifecycle(made)["Rules"]
    return rules


def classes(*steps: tuple[str, str]) -> list[dict[str, str]]:
    return [{"class": "STANDARD"}, *({"class": name, "after": age} for name, age in steps)]


def test_every_class_after_the_first_is_a_transition_of_large_objects() -> None:
    ladder = classes(("STANDARD_IA", "30 d"), ("GLACIER_FLEXIBLE", "90 d"))
    _, rule = rules_of(classes=ladder)
    assert rule["Transitions"] == [
        {"Days": 30, "StorageClass": "STANDARD_IA"},
        {"Days": 90, "StorageClass": "GLACIER"},
    ]
    assert rule["Filter"]["And"]["ObjectSizeGreaterThan"] == 128 * 1024 - 1


def test_uploads_that_never_ended_are_cleared_and_nothing_is_deleted() -> None:
    (rule,) = rules_of()
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert "Transitions" not in rule
    assert "Expiration" not in rule


def test_noncurrent_versions_expire_where_versioning_keeps_them() -> None:
    (rule,) = rules_of(noncurrent="36 h")
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 2}


@pytest.mark.parametrize(
    ("ladder", "says"),
    [
        (classes(("EXPRESS_ONE_ZONE", "1 d")), "EXPRESS_ONE_ZONE"),
        (classes(("STANDARD_IA", "29 d")), "STANDARD_IA after 29 days: S3 asks for 30"),
        ("ONEZONE_IA", "ONEZONE_IA after 0 days: S3 asks for 30, and tierlog writes STANDARD"),
        (
            classes(("STANDARD_IA", "30 d"), ("GLACIER_IR", "59 d")),
            "from STANDARD_IA to GLACIER_IR within 30 days",
        ),
    ],
)
def test_a_move_that_no_rule_can_make_is_refused_and_told_in_the_bill(
    ladder: Any, says: str
) -> None:
    with pytest.raises(CostError, match=says):
        rules_of(classes=ladder)
    made = bill(workload={"retention": "1 year"}, tiering={"classes": ladder})
    assert any(says in each for each in made.warnings)


@pytest.mark.parametrize("name", ["GLACIER_IR", "DEEP_ARCHIVE"])
def test_a_first_class_that_is_never_written_to_pays_a_put_as_standard_and_the_move(
    name: str,
) -> None:
    first = from_dict({"workload": {"retention": "1 year"}, "tiering": {"classes": name}})
    lines = {line.item: line for line in plan(first).lines}
    puts = lines[f"segments in {name}: PUT requests"]
    assert puts.price.key == "s3.STANDARD.put"
    moves = lines[f"segments in {name}: transition requests"]
    # Each segment is two PUTs, its own and its publication, and one move.
    assert moves.quantity.value == pytest.approx(puts.quantity.value / 2)
    _, rule = lifecycle(first)["Rules"]
    assert rule["Transitions"] == [{"Days": 0, "StorageClass": S3_NAMES[name]}]


def test_a_bucket_of_one_class_pays_its_own_puts_and_no_move() -> None:
    made = bill(tiering={"classes": "EXPRESS_ONE_ZONE"})
    assert part(made, "transition requests") == 0
    puts = next(line for line in made.lines if line.item.endswith("ZONE: PUT requests"))
    assert puts.price.key == "s3.EXPRESS_ONE_ZONE.put"


# What the bucket's own check thinks of it.


def move(*steps: tuple[int, str], size: int | None = 131_071, prefix: str = "") -> dict[str, Any]:
    inner = {"Prefix": prefix, **({} if size is None else {"ObjectSizeGreaterThan": size})}
    made = [{"Days": days, "StorageClass": name} for days, name in steps]
    return {"ID": "m", "Status": "Enabled", "Filter": {"And": inner}, "Transitions": made}


def test_both_sides_agree_about_classes_days_and_sizes() -> None:
    assert set(READABLE) == set(bucket_rules.READABLE)
    for name in READABLE:
        made = rules_of(classes=classes((name, "30 d")))
        assert losing_rules(made, "") == []


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (move((1, "GLACIER")), "GLACIER is none of"),
        (move((180, "DEEP_ARCHIVE")), "DEEP_ARCHIVE is none of"),
        (move((30, "STANDARD_IA"), (90, "GLACIER")), "GLACIER is none of"),
        (move((1, "COLDTIER")), "COLDTIER is none of"),
        (move((1, "GLACIER_IR"), size=None), "131072 bytes and more"),
        (move((1, "GLACIER_IR"), size=131_070), "131072 bytes and more"),
        (move((29, "STANDARD_IA")), "STANDARD_IA after 29 days, S3 asks for 30"),
        (move((30, "ONEZONE_IA"), (59, "GLACIER_IR")), "GLACIER_IR after 59 days, S3 asks for 60"),
        (move((-1, "GLACIER_IR")), "has no days"),
        ({**move(), "Transitions": [{"Date": "2027-01-01", "StorageClass": "GLACIER_IR"}]}, "days"),
        ({**move(), "Transition": {"Days": 1, "StorageClass": "GLACIER"}}, "GLACIER is none of"),
        ({**move((1, "GLACIER_IR")), "Expiration": {"Days": 400}}, "deletes current objects"),
    ],
)
def test_a_move_that_loses_data_or_that_s3_refuses_is_told(rule: dict[str, Any], says: str) -> None:
    (said,) = losing_rules([rule], "prod/")
    assert says in said


def test_moves_that_leave_objects_readable_are_accepted() -> None:
    good = [
        move((0, "GLACIER_IR")),
        move((30, "STANDARD_IA"), (60, "GLACIER_IR"), prefix="prod/"),
        move((0, "INTELLIGENT_TIERING"), size=10_000_000),
        {**move((1, "GLACIER")), "Status": "Disabled"},
        move((1, "GLACIER"), size=None, prefix="elsewhere/"),
    ]
    assert losing_rules(good, "prod/") == []


def test_topic_settings_are_kafkas_names_in_kafkas_units() -> None:
    assert topic_settings(from_dict({})) == {
        "remote.storage.enable": "true",
        "retention.ms": "604800000",
        "local.retention.ms": "600000",
        "segment.bytes": "134217728",
        "segment.ms": "3600000",
        "tierlog.table.enable": "true",
    }
