"""Line items of the object store by hand, and the traps that calculators fall into."""

from math import ceil

import pytest

from cost_model.flow import upload_requests
from cost_model.prices import default_book
from cost_model.scenario import Tiering
from cost_model.units import MIB
from tests.cost_model.support import DECIMAL, LONG, QUIET, bill, part

PLUGIN = {"single_put": "25 MiB", "part": "25 MiB"}
"""Of Kafka's S3 plugin, for which these figures were reckoned."""


@pytest.mark.parametrize(
    ("segment", "objects", "usd_per_tb"),
    [
        ("8 MiB", 3, 1.8),
        ("128 MiB", 3, 0.37),
        ("1 GiB", 3, 0.21),
        ("8 MiB", 1, 0.60),
        ("128 MiB", 1, 0.30),
        ("1 GiB", 1, 0.20),
    ],
)
def test_upload_requests_per_terabyte(segment: str, objects: int, usd_per_tb: float) -> None:
    made = bill(
        workload={"write": "100 MB/s", "partitions": 1},
        tiering={"segment": segment, "objects": objects, "publish_puts": 0, **PLUGIN},
        parquet={"enabled": False},
    )
    terabytes = 100e6 * 730 * 3600 / 1e12
    assert part(made, "PUT requests") / terabytes == pytest.approx(usd_per_tb, rel=0.03)


def test_a_segment_of_one_part_is_one_request_and_a_larger_one_pays_start_and_end() -> None:
    plugin = Tiering(single_put=25 * MIB, part=25 * MIB)
    assert upload_requests(size=25 * MIB, tiering=plugin, objects=1) == 1
    assert upload_requests(size=25 * MIB + 1, tiering=plugin, objects=1) == 4
    assert upload_requests(size=8 * MIB, tiering=plugin, objects=3) == 3
    # tierlog: whole up to 256 MiB, then parts of 64 MiB.
    assert upload_requests(size=256 * MIB, tiering=Tiering(), objects=1) == 1
    assert upload_requests(size=256 * MIB + 1, tiering=Tiering(), objects=1) == 7


@pytest.mark.parametrize(("segment", "usd_per_tb"), [("8 MiB", 3.6), ("1 GiB", 0.03)])
def test_transitions_of_three_objects_a_segment(segment: str, usd_per_tb: float) -> None:
    made = bill(
        workload={"write": "100 MB/s", "partitions": 1, "retention": "60 d"},
        tiering={
            "segment": segment,
            "objects": 3,
            "classes": [{"class": "STANDARD"}, {"class": "STANDARD_IA", "after": "30 d"}],
        },
        parquet={"enabled": False},
    )
    terabytes = 100e6 * 730 * 3600 / 1e12
    assert part(made, "transition") / terabytes == pytest.approx(usd_per_tb, rel=0.08)


@pytest.mark.parametrize(
    ("name", "usd"), [("STANDARD", 9.54), ("STANDARD_IA", 1023.84), ("GLACIER_IR", 3238.42)]
)
def test_a_replay_of_100_tb_pays_requests_and_retrieval(name: str, usd: float) -> None:
    made = bill(
        workload=LONG,
        tiering={"classes": name, **QUIET},
        reads={"replay": "100 TB", "replay_from": "segments", "chunk": "4 MiB", "index_gets": 0},
        parquet={"enabled": False},
        billing=DECIMAL,
    )
    assert part(made, "GET requests") + part(made, ": retrieval") == pytest.approx(usd, abs=0.01)


@pytest.mark.parametrize(
    ("name", "usd"), [("STANDARD", 6.1), ("STANDARD_IA", 15.3), ("GLACIER_IR", 152.6)]
)
def test_small_chunks_multiply_the_requests(name: str, usd: float) -> None:
    made = bill(
        workload=LONG,
        tiering={"classes": name, **QUIET},
        reads={"replay": "1 TB", "replay_from": "segments", "chunk": "64 KiB"},
        parquet={"enabled": False},
    )
    assert part(made, "GET requests") == pytest.approx(usd, rel=0.01)


@pytest.mark.parametrize(
    ("cold", "warm", "scans"),
    [
        ("STANDARD_IA", "STANDARD", 1.05),
        ("GLACIER_IR", "STANDARD", 0.63),
        ("GLACIER_IR", "STANDARD_IA", 0.43),
    ],
)
def test_colder_classes_pay_below_so_many_full_scans_a_month(
    cold: str, warm: str, scans: float
) -> None:
    book = default_book()

    def price(name: str, what: str) -> float:
        key = f"{book.classes[name].prices}.{what}"
        return float(book[key if key in book else f"{key}.tier1"].usd)

    saved = price(warm, "storage") - price(cold, "storage")
    paid = price(cold, "retrieval") - price(warm, "retrieval")
    assert saved / paid == pytest.approx(scans, abs=0.01)


def test_bytes_deleted_before_the_minimum_duration_pay_the_rest() -> None:
    short = bill(
        workload={"write": "10 MB/s", "retention": "10 d"},
        tiering={"classes": "GLACIER_IR"},
        parquet={"enabled": False},
        billing=DECIMAL,
    )
    # Ten days are stored, eighty more are due: as much as a retention of ninety.
    assert part(short, "early deletion") == pytest.approx(10e6 * 80 * 86_400 / 1e9 * 0.004)
    assert any("minimum duration" in each for each in short.warnings)


def test_moving_on_too_early_pays_the_minimum_duration_as_well() -> None:
    made = bill(
        workload={"write": "10 MB/s", "retention": "1 year"},
        tiering={
            "classes": [
                {"class": "STANDARD"},
                {"class": "STANDARD_IA", "after": "30 d"},
                {"class": "GLACIER_IR", "after": "40 d"},
            ]
        },
        parquet={"enabled": False},
        billing=DECIMAL,
    )
    due = part(made, "segments in STANDARD_IA: early deletion")
    assert due == pytest.approx(10e6 * 20 * 86_400 / 1e9 * 0.0125)


def test_small_objects_are_billed_at_the_least_billable_size() -> None:
    made = bill(
        workload={"write": "1 MB/s", "partitions": 1, "retention": "90 d"},
        tiering={"segment": "64 KiB", "classes": "STANDARD_IA"},
        parquet={"enabled": False},
        billing=DECIMAL,
    )
    twice = 2 * 1e6 * 90 * 86_400 / 1e9 * 0.0125
    assert part(made, "segments in STANDARD_IA") >= twice
    storage = next(line for line in made.lines if line.item == "segments in STANDARD_IA")
    assert float(storage.amount) == pytest.approx(twice)
    assert "billed as 128 KiB each at least" in storage.how()


def test_objects_below_128_kib_never_leave_their_first_class() -> None:
    ladder = [{"class": "STANDARD"}, {"class": "GLACIER_IR", "after": "1 d"}]
    small, large = (
        bill(
            workload={"write": "1 MB/s", "partitions": 1, "retention": "90 d"},
            tiering={"segment": segment, "classes": ladder},
            parquet={"enabled": False},
        )
        for segment in ("127 KiB", "128 KiB")
    )
    assert part(small, "GLACIER_IR") == 0
    assert part(large, "segments in GLACIER_IR") > 0
    assert any("never moved" in each for each in small.warnings)


def test_archives_bill_metadata_of_every_object() -> None:
    made = bill(
        workload={"write": "1 MB/s", "partitions": 1, "retention": "1 year"},
        tiering={"segment": "1 MiB", "classes": "DEEP_ARCHIVE"},
        parquet={"enabled": False},
        billing=DECIMAL,
    )
    objects = 1e6 * 365 * 86_400 / MIB
    assert part(made, "metadata index") == pytest.approx(objects * 8 * 1024 / 1e9 * 0.023)
    assert part(made, "object metadata") > part(made, "metadata index")


def test_the_remote_tier_overlaps_the_local_one() -> None:
    for local in ("1 min", "6 d"):
        made = bill(
            workload={"write": "1 MB/s", "retention": "7 d"},
            tiering={"local_retention": local},
            parquet={"enabled": False},
            billing=DECIMAL,
        )
        stored = next(line for line in made.lines if line.item == "segments in STANDARD")
        assert stored.quantity.value == pytest.approx(1e6 * 7 * 86_400 / 1e9)


def test_volume_tiers_fill_up_over_segments_and_parquet_together() -> None:
    made = bill(workload={"write": "100 MB/s", "retention": "365 d"})
    first, second, third = (
        sum(
            line.quantity.value
            for line in made.lines
            if line.price.key == f"s3.STANDARD.storage.tier{tier}"
        )
        for tier in (1, 2, 3)
    )
    assert first == pytest.approx(51_200)
    assert second == pytest.approx(460_800)
    total = 2 * 100e6 * 365 * 86_400 / 2**30
    assert first + second + third == pytest.approx(total)


def test_kms_without_a_bucket_key_costs_more_than_the_gets() -> None:
    made = bill(
        workload=LONG,
        tiering={"encryption": "kms"},
        reads={"replay": "100 TB", "replay_from": "segments"},
        parquet={"enabled": False},
    )
    assert part(made, "KMS requests") > 7 * part(made, "GET requests")
    keyed = bill(workload=LONG, tiering={"encryption": "bucket-key"})
    assert part(keyed, "KMS") == 1.0


def test_erasure_pays_reads_rewrites_the_rest_of_the_minimum_and_the_locked_old_object() -> None:
    made = bill(
        workload={"write": "10 MB/s", "partitions": 1, "retention": "1 year"},
        tiering={"classes": "GLACIER_IR"},
        parquet={"enabled": False},
        erasure={"requests": 10, "segments": 100, "lock": "365 d"},
        billing=DECIMAL,
    )
    size = 1000 * 128 * MIB
    assert part(made, "erasure in segments in GLACIER_IR: retrieval") == pytest.approx(
        size / 1e9 * 0.03
    )
    assert part(made, "noncurrent") == pytest.approx(size / 1e9 * 365 * 24 / 730 * 0.004)
    # Half of ninety days for the youngest ninety: once for the old object, once for the new one.
    mean_rest = 2 * 90 * 24 / 730 / 2 * 90 / 365
    assert part(made, "erasure in segments in GLACIER_IR: early") == pytest.approx(
        size / 1e9 * mean_rest * 0.004
    )


def test_a_rewrite_of_what_expires_early_anyway_adds_one_minimum_duration() -> None:
    made = bill(
        workload={"write": "10 MB/s", "partitions": 1, "retention": "10 d"},
        tiering={"classes": "GLACIER_IR"},
        parquet={"enabled": False},
        erasure={"requests": 1, "segments": 100},
        billing=DECIMAL,
    )
    expected = 100 * 128 * MIB / 1e9 * 90 * 24 / 730 * 0.004
    assert part(made, "erasure in segments in GLACIER_IR: early") == pytest.approx(expected)


def test_the_cache_saves_requests_as_far_as_it_holds_what_is_read_again() -> None:
    reads = {"replay": "100 TB", "replay_from": "segments", "repeat": 0.8, "hot_set": "60 GiB"}
    none, half, full = (
        part(
            bill(
                workload=LONG,
                cluster={"brokers": 6},
                tiering=QUIET,
                reads={**reads, "cache": cache},
                parquet={"enabled": False},
            ),
            "GET requests",
        )
        for cache in ("0 B", "5 GiB", "10 GiB")
    )
    assert half == pytest.approx(none * 0.6)
    assert full == pytest.approx(none * 0.2)


def test_one_petabyte_on_disk_and_in_the_store() -> None:
    # The derivation behind "object storage saves": 1 PB, gp3 RF 3, against STANDARD.
    work = {"write": "100 MB/s", "partitions": 1, "retention": f"{1e15 / 100e6} s"}
    disk = bill(
        workload=work, cluster={"disk_free": 0}, tiering={"enabled": False}, billing=DECIMAL
    )
    assert part(disk, "local log") == pytest.approx(240_000, rel=1e-3)
    for name, usd in (("STANDARD", 21_563.2), ("STANDARD_IA", 12_500), ("GLACIER_IR", 4_000)):
        store = bill(
            workload=work,
            tiering={"classes": name},
            parquet={"enabled": False},
            billing=DECIMAL,
        )
        stored = [each for each in store.lines if each.price.key.startswith(f"s3.{name}.storage")]
        assert float(sum(each.amount for each in stored)) == pytest.approx(usd, rel=0.001)


@pytest.mark.parametrize(
    ("segment", "objects", "free", "minutes"),
    [
        ("1 GiB", 3, 0.5, 20),
        ("1 GiB", 3, 0.0, 38),
        ("128 MiB", 3, 0.0, 68),
        ("8 MiB", 3, 0.0, 326),
    ],
)
def test_an_upload_pays_for_itself_within_minutes_of_disk(
    segment: str, objects: int, free: float, minutes: float
) -> None:
    """How long the same bytes may lie on three gp3 replicas for the price of their upload."""
    made = bill(
        workload={"write": "100 MB/s", "partitions": 1},
        tiering={"segment": segment, "objects": objects, "publish_puts": 0, **PLUGIN},
        parquet={"enabled": False},
    )
    per_byte = part(made, "PUT requests") / (100e6 * 730 * 3600)
    disk_minute = 3 * 0.08 / (1 - free) / 1e9 / (730 * 60)
    assert per_byte / disk_minute == pytest.approx(minutes, rel=0.06)


def test_a_listing_is_billed_as_standard_whatever_it_shows() -> None:
    made = bill(
        workload={"write": "10 MB/s", "partitions": 1, "retention": "1 year"},
        tiering={"classes": "GLACIER_IR", "sweeps_per_day": 1},
        parquet={"enabled": False},
    )
    line = next(line for line in made.lines if "LIST" in line.item)
    assert line.price.key == "s3.STANDARD.put"
    pages = ceil(10e6 * 365 * 86_400 / (128 * MIB) / 1000)
    assert line.quantity.value == pytest.approx(pages * 730 / 24 / 1000)
    none = bill(workload=LONG, tiering={"sweeps_per_day": 0})
    assert part(none, "LIST") == 0


def test_versioning_keeps_deleted_bytes_and_bills_them() -> None:
    made = bill(
        workload={"write": "1 MB/s", "retention": "7 d"},
        tiering={"noncurrent": "30 d"},
        parquet={"enabled": False},
        billing=DECIMAL,
    )
    assert part(made, "noncurrent") == pytest.approx(1e6 * 30 * 86_400 / 1e9 * 0.023)


def test_a_class_that_the_retention_never_reaches_costs_nothing() -> None:
    ladder = [{"class": "STANDARD"}, {"class": "GLACIER_IR", "after": "30 d"}]
    made = bill(workload={"retention": "20 d"}, tiering={"classes": ladder, "noncurrent": "1 d"})
    assert part(made, "GLACIER_IR") == 0
    assert part(made, "noncurrent") > 0
