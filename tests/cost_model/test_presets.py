"""Other systems with the same workload."""

import pytest

from cost_model import CostError, Scenario, from_dict, plan
from cost_model.presets import PRESETS, preset

WEEK = from_dict({"workload": {"write": "30 MB/s", "retention": "7 d"}})


def test_kafka_on_disk_has_no_store_and_keeps_everything_local() -> None:
    bill = plan(preset("kafka", WEEK))
    assert bill.group("store").lines == ()
    assert bill.group("compute").lines == ()
    assert bill.group("disks").amount > plan(WEEK).group("disks").amount * 100


def test_kafka_on_disk_does_not_pay_for_the_machines_of_a_bucket() -> None:
    own = from_dict({"workload": {"write": "30 MB/s"}, "tiering": {"classes": "OWN"}})
    assert plan(own).group("hardware").amount > 0
    assert plan(preset("kafka", own)).group("hardware").lines == ()


def test_tiering_makes_kafka_cheaper_where_history_is_long() -> None:
    assert plan(preset("kafka-tiered", WEEK)).total < plan(preset("kafka", WEEK)).total


def test_msk_does_not_bill_replication() -> None:
    lines = [line.item for line in plan(preset("msk-tiered", WEEK)).lines]
    assert "across zones: replication" not in lines
    assert "brokers, kafka.m7g.large" in lines


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_keeps_the_workload_and_the_uncertainty(name: str) -> None:
    made = preset(name, WEEK)
    assert made.workload == WEEK.workload
    assert made.uncertainty == WEEK.uncertainty
    assert made.name != WEEK.name


def test_a_preset_takes_a_retention_shorter_than_its_local_one() -> None:
    short = from_dict({"workload": {"retention": "20 min"}})
    assert all(plan(make(short)).total > 0 for make in PRESETS.values())


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(CostError, match="did you mean kafka-tiered"):
        preset("kafka-tierd", Scenario())
