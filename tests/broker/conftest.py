"""What the tests of the broker share."""

from collections.abc import AsyncIterator

import pytest

from tests.broker.support import Served, serving


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A node with every setting at its default."""
    async with serving() as one:
        yield one
