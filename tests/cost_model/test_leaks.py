"""Leak checks: each speaks up where money leaks, and is silent where it does not."""

from typing import Any

import pytest

from tests.cost_model.support import bill

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "pass a NAT gateway",
        {"tiering": {"endpoint": "nat"}},
        {"tiering": {"endpoint": "gateway"}},
    ),
    (
        "active segments are",
        {"workload": {"write": "1 GB/s", "partitions": 1000}, "tiering": {"segment": "1 GiB"}},
        {"workload": {"write": "1 GB/s", "partitions": 1000}, "tiering": {"segment": "8 MiB"}},
    ),
    (
        "segments roll by time",
        {"workload": {"write": "1 MB/s", "partitions": 1000}},
        {"workload": {"write": "1 MB/s", "partitions": 10}},
    ),
    (
        "costs more than a month of it saves",
        {
            "workload": {"write": "10 MB/s", "retention": "90 d"},
            "tiering": {
                "segment": "900 KB",
                "classes": [{"class": "STANDARD"}, {"class": "STANDARD_IA", "after": "30 d"}],
            },
        },
        {
            "workload": {"write": "10 MB/s", "retention": "90 d"},
            "tiering": {
                "segment": "2 MB",
                "classes": [{"class": "STANDARD"}, {"class": "STANDARD_IA", "after": "30 d"}],
            },
        },
    ),
    (
        "the first byte from DEEP_ARCHIVE takes 12 h",
        {"workload": {"retention": "2 years"}, "tiering": {"classes": "DEEP_ARCHIVE"}},
        {"workload": {"retention": "2 years"}, "tiering": {"classes": "GLACIER_IR"}},
    ),
    (
        "before its minimum duration",
        {"workload": {"retention": "20 d"}, "tiering": {"classes": "STANDARD_IA"}},
        {"workload": {"retention": "31 d"}, "tiering": {"classes": "STANDARD_IA"}},
    ),
    (
        "GET/s on average exceed",
        {"workload": {"partitions": 1}, "reads": {"replay": "100 PB", "chunk": "1 MiB"}},
        {"workload": {"partitions": 100}, "reads": {"replay": "100 PB", "chunk": "1 MiB"}},
    ),
    (
        "the chunk cache of 500 GiB a broker saves nothing",
        {"reads": {"cache": "500 GiB"}},
        {"reads": {"cache": "500 GiB", "repeat": 0.5}},
    ),
    (
        "m7g.xlarge has no local NVMe",
        {"cluster": {"disk": "nvme"}},
        {"cluster": {"disk": "nvme", "instance": "i4i.xlarge"}},
    ),
]


@pytest.mark.parametrize(("words", "leaky", "tight"), CASES, ids=[case[0] for case in CASES])
def test_a_leak_is_told_where_it_is_and_only_there(
    words: str, leaky: dict[str, Any], tight: dict[str, Any]
) -> None:
    assert any(words in each for each in bill(**leaky).warnings)
    assert not any(words in each for each in bill(**tight).warnings)


def test_the_default_scenario_has_no_leak() -> None:
    assert bill().warnings == ()
