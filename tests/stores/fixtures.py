"""Fixtures: one server of each kind for all tests of a session. Each xdist worker has its own.

A store that is missing skips its tests; under CI=true it fails them.
"""

import os
from collections.abc import Iterator

import pytest

from tests.stores.servers import STORES, Missing, Server


def serving(name: str, factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        with STORES[name](factory.mktemp(name)) as server:
            yield server
    except Missing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving("moto", tmp_path_factory)


@pytest.fixture(scope="session")
def seaweed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving("seaweed", tmp_path_factory)


@pytest.fixture(scope="session")
def minio_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving("minio", tmp_path_factory)


@pytest.fixture(scope="session", params=["moto", "seaweed", "minio"])
def s3_server(request: pytest.FixtureRequest) -> Server:
    """Each of them in turn."""
    server: Server = request.getfixturevalue(f"{request.param}_server")
    return server
