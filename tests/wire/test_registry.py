"""The table of what is served."""

from __future__ import annotations

import pytest

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.catalogue import request_type, response_type
from tierlog.wire.registry import Registry


def test_what_is_registered_is_what_clients_are_told() -> None:
    registry: Registry[str] = Registry()
    registry.register(ApiKey.METADATA, "metadata", version_max=12)
    registry.register(ApiKey.FETCH, "fetch")
    told = [(row.api_key, row.min_version, row.max_version) for row in registry.api_versions()]
    assert told == [(1, 4, 18), (3, 0, 12)]


def test_produce_is_advertised_from_0_and_served_from_3() -> None:
    registry: Registry[str] = Registry()
    registry.register(ApiKey.PRODUCE, "produce")
    row = registry.api_versions()[0]
    assert (row.min_version, row.max_version) == (0, 13)
    assert registry.find(ApiKey.PRODUCE, 2) is None
    assert registry.find(ApiKey.PRODUCE, 3) is not None


def test_only_registered_versions_are_found() -> None:
    registry: Registry[str] = Registry()
    registry.register(ApiKey.LIST_OFFSETS, "list", version_min=2, version_max=7)
    found = {version for version in range(-1, 20) if registry.find(2, version)}
    assert found == set(range(2, 8))
    assert registry.find(999, 0) is None
    assert ApiKey.LIST_OFFSETS in registry
    assert ApiKey.FETCH not in registry


def test_versions_without_a_schema_cannot_be_registered() -> None:
    registry: Registry[str] = Registry()
    with pytest.raises(ValueError, match="schema"):
        registry.register(ApiKey.FETCH, "x", version_max=19)
    with pytest.raises(ValueError, match="schema"):
        registry.register(ApiKey.PRODUCE, "x", version_min=0)


def test_an_api_cannot_be_registered_twice() -> None:
    registry: Registry[str] = Registry()
    registry.register(ApiKey.FETCH, "x")
    with pytest.raises(ValueError, match="twice"):
        registry.register(ApiKey.FETCH, "y")


@pytest.mark.parametrize("api", list(ApiKey))
def test_key_module_and_classes_belong_together(api: ApiKey) -> None:
    request, response = request_type(api), response_type(api)
    assert request.api_key == response.api_key == api
    assert request.versions == response.versions
    assert request.flexible == response.flexible


RANGES = {
    18: "0-4", 3: "0-13", 0: "3-13", 1: "4-18", 2: "1-11", 10: "0-6", 11: "0-9", 14: "0-5",
    12: "0-4", 13: "0-5", 8: "2-10", 9: "1-10", 22: "0-5", 19: "2-7", 20: "1-6", 23: "2-4",
    17: "0-1", 36: "0-2", 24: "0-5", 25: "0-4", 26: "0-5", 28: "0-5", 27: "1-2", 68: "0-1",
    69: "0-1", 15: "0-6", 16: "0-5", 42: "0-2", 47: "0", 32: "1-4", 33: "0-2", 44: "0-1",
    37: "0-3", 21: "0-2", 29: "1-3", 30: "1-3", 31: "1-3", 48: "0-1", 49: "0-1", 50: "0", 51: "0",
    60: "0-2", 61: "0", 65: "0", 66: "0-2", 75: "0", 35: "1-5", 34: "1-2", 43: "0-2", 45: "0-1",
    46: "0", 57: "0-2", 55: "0-2", 74: "0-1",
}  # fmt: skip


def test_the_ranges_are_those_of_kafka_4_3() -> None:
    assert {int(api): str(request_type(api).versions) for api in ApiKey} == RANGES
