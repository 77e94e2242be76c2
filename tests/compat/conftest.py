"""A node for each module of tests, and the clients that are here."""

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.cold import PLACES, Place, place_of
from tests.compat.drivers import DRIVERS
from tests.compat.drivers.base import Admin, Driver
from tests.compat.drivers.confluent import Confluent
from tests.compat.drivers.kafka_python import close_refused_sockets
from tests.compat.node import running

HERE = Path(__file__).parent
SOCKETS_LEFT_BEHIND = "ignore:unclosed:ResourceWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clients that find no node leave their sockets to the collector: those of the restart tests
    leave eight, which would fail whatever test runs when they are found."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(SOCKETS_LEFT_BEHIND))


@pytest.fixture(scope="session", autouse=True)
def _closing() -> None:
    close_refused_sockets()


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """What the clients of a module left behind goes before the tests of others."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Its address. A module chooses settings by its own NODE_SETS."""
    sets = getattr(request.module, "NODE_SETS", ())
    with running(tmp_path_factory.mktemp("node"), sets=sets) as node:
        yield node.address


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Each object store in turn; below a prefix of the module's own where it is shared."""
    if request.param == "folder":
        return Place(name="folder")
    server = request.getfixturevalue(f"{request.param}_server")
    return place_of(server, prefix=request.module.__name__.rpartition(".")[2])


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request: pytest.FixtureRequest) -> Driver:
    found: Driver = request.param
    return available(found)


def available(driver: Driver) -> Driver:
    """A client that is missing is a failure where everything must be there."""
    missing = driver.missing()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return driver


@pytest.fixture
def admin(driver: Driver, server: str) -> Iterator[Admin]:
    """The client's own, or another's where it has none."""
    made = driver.admin(server) or Confluent().admin(server)
    yield made
    made.close()
