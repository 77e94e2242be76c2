"""Line items by hand: machines, network, compute."""

from decimal import Decimal

import pytest

from cost_model import from_dict, plan
from cost_model.derive import derive
from cost_model.network import copies_across
from cost_model.prices import default_book
from cost_model.units import GIB
from tests.cost_model.support import DECIMAL, LONG, QUIET, bill, part


def test_active_segments_are_a_floor_that_local_retention_does_not_lower() -> None:
    # 1,000 partitions x 1 GiB x RF 3: 3 TiB, whatever L says.
    for local in ("1 min", "1 s"):
        made = from_dict(
            {
                "workload": {"write": "1 GB/s", "partitions": 1000},
                "cluster": {"disk_free": 0},
                "tiering": {"segment": "1 GiB", "roll": "7 d", "local_retention": local},
            }
        )
        held = derive(made, default_book()).local_bytes
        assert held == 3 * (1e9 * made.tiering.local_retention + 1000 * GIB)
        assert held > 3 * 1000 * GIB


def test_a_quiet_partition_rolls_by_time_and_makes_small_objects() -> None:
    made = from_dict({"workload": {"write": "1 MB/s", "partitions": 1000}})
    assert derive(made, default_book()).segment == 1e6 / 1000 * 3600
    assert any("roll by time" in each for each in plan(made).warnings)


def test_a_nat_gateway_on_the_way_to_the_store_is_priced_and_told() -> None:
    good, leaky = (
        bill(workload=LONG, tiering={"endpoint": endpoint, **QUIET})
        for endpoint in ("gateway", "nat")
    )
    uploaded = 2 * 100e6 * 730 * 3600 / 2**30  # Segments and Parquet.
    assert part(leaky, "NAT: bytes") == pytest.approx(uploaded * 0.045)
    assert part(good, "NAT") == 0
    assert any("gateway endpoint" in each for each in leaky.warnings)


@pytest.mark.parametrize(
    ("replicas", "zones", "across"),
    [(3, 3, 2), (2, 3, 1), (1, 3, 0), (3, 1, 0), (3, 2, 4 / 3), (4, 2, 2), (5, 3, 5 - 9 / 5)],
)
def test_replication_crosses_as_many_zones_as_there_are(
    replicas: int, zones: int, across: float
) -> None:
    assert copies_across(replicas, zones) == pytest.approx(across)


def test_one_zone_pays_nothing_across_zones() -> None:
    assert part(bill(workload=LONG, cluster={"zones": 1}), "across") == 0


def test_staying_in_the_zone_saves_produce_and_consume_but_not_replication() -> None:
    made = bill(workload=LONG, network={"zone_aware_produce": True, "follower_fetch": True})
    assert part(made, "across zones: produce") == part(made, "across zones: consume") == 0
    assert part(made, "across zones: replication") > 0


def test_compression_lowers_what_is_stored_and_moved_but_not_what_is_converted() -> None:
    plain, packed = (
        bill(workload={**LONG, "compression": ratio}, cluster={"brokers": 30}) for ratio in (1, 4)
    )
    for words in ("segments in STANDARD: LIST", "across zones: produce"):
        assert part(plain, words) == pytest.approx(4 * part(packed, words), rel=0.01)
    assert part(plain, "Parquet conversion") == part(packed, "Parquet conversion")


def test_gp3_sells_speed_above_what_is_free() -> None:
    made = bill(workload={"write": "100 MB/s", "peak": 3}, cluster={"brokers": 3, "replicas": 3})
    # 300 MB/s at peak a broker: 175 above the free 125; 2,289 operations are below the free 3,000.
    assert part(made, "disk throughput") == pytest.approx(3 * 175 * 0.04)
    assert part(made, "disk operations") == 0


def test_there_are_never_fewer_brokers_than_replicas() -> None:
    made = from_dict({"workload": {"write": "1 KB/s"}, "cluster": {"replicas": 5}})
    assert derive(made, default_book()).brokers == 5


def test_operations_are_a_line_of_their_own_and_nothing_unless_given() -> None:
    assert "operations" not in [group.name for group in bill().groups]
    assert part(bill(cluster={"operations": 5000}), "operations") == 5000


def test_egress_fills_its_tiers_after_the_free_hundred() -> None:
    made = bill(reads={"egress": "20 TB"}, billing=DECIMAL)
    assert part(made, "to the internet") == pytest.approx(10_240 * 0.09 + (19_900 - 10_240) * 0.085)


def test_a_replay_from_parquet_reads_the_smaller_copy_and_skips_the_brokers() -> None:
    reads = {"replay": "100 TB", "engine": "glue", "index_gets": 0}
    table = {"size_ratio": 0.5}
    broker, parquet = (
        bill(workload=LONG, tiering=QUIET, parquet=table, reads={**reads, "replay_from": source})
        for source in ("broker", "parquet")
    )
    assert part(parquet, "replay through brokers") == 0
    assert part(broker, "replay through brokers") > 1000
    assert part(parquet, "Parquet in STANDARD: GET") == pytest.approx(
        part(broker, "segments in STANDARD: GET") / 2
    )
    assert part(broker, "Glue") == pytest.approx(100e12 / 50e6 / 3600 / 4 * 0.44)


def test_own_hardware_grows_with_the_bytes_and_pays_power() -> None:
    made = bill(
        workload={"write": "100 MB/s", "retention": "1 year"},
        tiering={"classes": "OWN"},
        parquet={"enabled": False},
    )
    nodes = 18  # 3.15 PB at 180 TB usable a node.
    assert part(made, "own nodes") == pytest.approx(nodes * 9000 / 60)
    assert part(made, "own drives") == pytest.approx(nodes * 240 * 18 / 60)
    assert part(made, "power") == pytest.approx(nodes * 0.45 * 730 * 1.5 * 0.12)


def test_a_price_of_the_scenario_replaces_the_books() -> None:
    made = bill(prices={"transfer.cross_zone": 0.0}, workload=LONG)
    assert part(made, "across zones") == 0


def test_the_confidence_of_a_bill_is_that_of_its_weakest_large_line() -> None:
    assert bill(workload=LONG).confidence == "B"  # Volume tiers come from a dated page.
    assert bill(workload={"write": "1 MB/s"}).confidence == "A"
    assert bill(workload=LONG, tiering={"classes": "OWN"}).confidence == "C"


def test_a_line_tells_quantity_price_source_and_date() -> None:
    for group in bill(workload=LONG, tiering={"encryption": "kms"}).as_json()["groups"]:
        for line in group["lines"]:
            assert line["source"]
            assert line["date"]
            assert line["how"]
            exact = Decimal(line["quantity"]) * Decimal(line["usd_per_unit"])
            assert abs(exact - Decimal(line["usd"])) <= Decimal("1e-9")


def test_the_hours_of_a_month_move_what_is_paid_by_the_hour_and_by_the_byte() -> None:
    short, long = (bill(workload=LONG, billing={"month_hours": hours}) for hours in (720, 744))
    for words in ("brokers", "across zones", "PUT"):
        assert part(long, words) / part(short, words) == pytest.approx(744 / 720)
    stored = "segments in STANDARD, volume tier 3"
    assert part(long, stored) == part(short, stored)


@pytest.mark.parametrize(
    ("instance", "usd"),
    [("is4gen.large", 0.112), ("i3en.large", 0.132), ("im4gn.large", 0.142), ("i4i.large", 0.268)],
)
def test_nvme_costs_more_per_gb_than_gp3(instance: str, usd: float) -> None:
    book = default_book()
    per_gb = float(book[f"instance.{instance}"].usd) * 730 / book.instances[instance].nvme_gb
    assert per_gb == pytest.approx(usd, abs=0.001)
    assert per_gb > float(book["disk.gp3.storage"].usd)


def test_local_nvme_sizes_the_brokers_and_adds_no_disk_price() -> None:
    made = from_dict(
        {
            "workload": {"write": "10 MB/s", "retention": "30 d"},
            "cluster": {"instance": "i3en.large", "disk": "nvme"},
            "tiering": {"enabled": False},
        }
    )
    # 25.9 TB x 3 replicas at half full, on 1,250 GB each less the cache.
    assert derive(made, default_book()).brokers == 126
    assert plan(made).group("disks").amount == 0
