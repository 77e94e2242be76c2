"""Published bills and worked examples, reproduced within their tolerance: the acceptance test.

Inputs and figures are in `fixtures.json`, with sources. Where a published figure is not compared,
its note says why; no tolerance is widened for it.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cost_model import Bill, default_book, from_dict, plan
from cost_model.estimate import estimate, like_the_page
from cost_model.units import HOUR, KIB, parse_duration, parse_rate
from cost_model.usage import ClassUsage, store_lines

FIXTURES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures.json").read_text())
GB = 2.0**30


def usage_of(name: str, given: dict[str, float]) -> ClassUsage:
    puts, gets = given["puts"], given["gets"]
    return ClassUsage(
        what="objects",
        storage_class=name,
        stored_bytes=given["stored_gb"] * GB,
        early_bytes=given.get("early_gb", 0.0) * GB,
        puts=puts,
        gets=gets,
        transitions=given.get("transitions", 0.0),
        retrieved_bytes=given.get("retrieved_gb", 0.0) * GB
        + gets * given.get("retrieved_kib_each_get", 0.0) * KIB,
        uploaded_bytes=puts * given.get("uploaded_kib_each_put", 0.0) * KIB,
        retrieval_requests=given.get("retrieval_requests", 0.0),
    )


def store(fixture: dict[str, Any]) -> dict[str, float]:
    """Priced class by class; kinds of lines are summed by the last word of their price's key."""
    book = default_book()
    usages = [usage_of(name, given) for name, given in fixture["inputs"].items()]
    lines = store_lines(usages, book, gb=GB)
    out: dict[str, float] = {"total": sum(float(line.amount) for line in lines)}
    for line in lines:
        kind = line.price.key.split(".")[2]
        out[kind] = out.get(kind, 0.0) + float(line.amount)
    for key, count in fixture.get("extra", {}).items():
        out["total"] += float(book[key].usd * count)
    return out


def rates(fixture: dict[str, Any]) -> dict[str, float]:
    """Requests a second and a write rate, over the hours of a month and the retention."""
    given = fixture["inputs"]
    seconds = given["hours"] * HOUR
    counted = {
        "stored_gb": parse_rate(given["write"]) * parse_duration(given["retention"]) / GB,
        "puts": given["puts_s"] * seconds,
        "gets": given["gets_s"] * seconds,
    }
    priced = store({"inputs": {given["storage_class"]: counted}})
    quantities = {"PUTs": counted["puts"], "GETs": counted["gets"], "GB": counted["stored_gb"]}
    return quantities | priced


def retrieval(fixture: dict[str, Any]) -> dict[str, float]:
    """The example states its own prices, an older one among them: only the arithmetic is ours."""
    given = fixture["inputs"]
    own = default_book().with_prices(
        {
            "s3.GLACIER_FLEXIBLE.retrieval": given["per_gb"],
            "s3.GLACIER_FLEXIBLE.retrieval_request": given["per_1k"],
        }
    )
    usage = ClassUsage(
        what="objects",
        storage_class="GLACIER_FLEXIBLE",
        retrieved_bytes=given["gb"] * GB,
        retrieval_requests=given["objects"],
    )
    lines = store_lines([usage], own, gb=GB)
    return {"total": float(sum(line.amount for line in lines))}


def network(fixture: dict[str, Any]) -> dict[str, float]:
    given = fixture["inputs"]
    bill = plan(
        from_dict(
            {
                "workload": {"write": given["write"], "groups": given["groups"]},
                "network": {"follower_fetch": given["follower_fetch"]},
                "billing": {"gb": given["gb"], "month_hours": given["month_hours"]},
            }
        )
    )
    days = given["month_hours"] / 24
    moved = sum(line.quantity.value for line in bill.group("network").lines) / 2
    day = float(bill.group("network").amount) / days
    return {
        "cross_az_MBps": moved * 1000 / days / 86_400,
        "usd_day": day,
        "usd_year": day * 365,
    }


def planned(fixture: dict[str, Any]) -> dict[str, float]:
    """The total, groups by name, and lines by the beginning of their name."""
    bill = plan(from_dict(fixture["inputs"]))
    months = Decimal(12 if fixture.get("years") else 1)
    return {name: float(_part(bill, name) * months) for name in fixture["expect"]}


def _part(bill: Bill, name: str) -> Decimal:
    if name == "total":
        return bill.total
    group = bill.group(name)
    chosen = group.lines or [line for line in bill.lines if line.item.split(",")[0] == name]
    assert chosen, f"no line {name}"
    return sum((line.amount for line in chosen), Decimal(0))


def capacity(fixture: dict[str, Any]) -> dict[str, float]:
    printed = like_the_page(**fixture["inputs"])
    return {name: getattr(printed, name) for name in fixture["expect"]}


def capacity_exact(fixture: dict[str, Any]) -> dict[str, float]:
    found = estimate(**fixture["inputs"])
    return {
        "raw_tb": round(found.retained / 1e12, 1),
        "physical_pb": round(found.replicated / 1e15, 1),
        "write_per_broker_MBps": round(found.write_per_broker / 1e6),
        "egress_GBps": round(found.consume / 1e9),
        "egress_per_broker_GBps": round(found.consume_per_broker / 1e9, 1),
    }


RUNNERS: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "store": store,
    "rates": rates,
    "retrieval": retrieval,
    "network": network,
    "plan": planned,
    "capacity": capacity,
    "capacity-exact": capacity_exact,
}


@pytest.mark.parametrize("fixture", FIXTURES, ids=[each["id"] for each in FIXTURES])
def test_a_published_figure_is_reproduced(fixture: dict[str, Any]) -> None:
    got = RUNNERS[fixture["kind"]](fixture)
    for name, expected in fixture["expect"].items():
        # Nothing but rounding in binary stands between an exact figure and ours.
        assert got[name] == pytest.approx(
            expected,
            abs=fixture.get("absolute", 0) or 1e-9,
            rel=fixture.get("relative", 1e-12),
        ), name


def test_every_fixture_of_the_acceptance_list_is_here() -> None:
    assert {each["id"] for each in FIXTURES} == {
        "s3-bill-infracost",
        "s3-express-1",
        "s3-express-2-lines",
        "glacier-retrieval",
        "kozlovski-30MBps",
        "confluent-100MBps",
        "automq-300MBps",
        "topicpartition-500MBps",
        "automq-kpc-500MBps-1d",
        "spec-estimator",
        "spec-1GBps",
    }


def test_our_own_figures_for_published_bills_stay_what_they_are() -> None:
    by_id = {each["id"]: each for each in FIXTURES}
    ours = {
        "confluent-100MBps": {"local log": 14_515.2, "network": 24_192.0},
        "automq-300MBps": {"local log": 24_320.0, "network": 51_840.0},
        "topicpartition-500MBps": {"network": 821_250.0, "total": 1_010_848.42},
    }
    for name, figures in ours.items():
        got = planned(by_id[name])
        for part, usd in figures.items():
            assert got[part] == pytest.approx(usd, rel=1e-6)
    # 6,548.08 a month: 51,200 GB at 0.023, the rest at 0.022.
    bill = plan(from_dict(by_id["topicpartition-500MBps"]["inputs"]))
    stored = [
        line for line in bill.lines if line.price.per == "GB-month" and "segments" in line.item
    ]
    assert float(sum(line.amount for line in stored)) * 12 == pytest.approx(78_577, abs=1)


def test_one_way_billing_gives_the_bill_that_counts_one_way() -> None:
    # A blog bills 100 MB/s of replication in one direction at $5,078 (its own arithmetic: 5,062);
    # it is why the number of directions is an input.
    both, one = (
        plan(
            from_dict(
                {
                    "workload": {"write": "100 MB/s", "groups": 0},
                    "network": {"zone_aware_produce": True, "directions": sides},
                    "billing": {"gb": "decimal"},
                }
            )
        )
        .group("network")
        .amount
        for sides in (2, 1)
    )
    assert both == 2 * one
    assert float(one) == pytest.approx(5_256)
