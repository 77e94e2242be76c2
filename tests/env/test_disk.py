"""The disk adapter of this machine, against the promises of the port."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.env.disk_contract import DiskContract
from tierlog.env import Disk, LocalDisk


class TestLocalDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> Disk:
        return LocalDisk()

    @pytest.fixture
    def at(self, tmp_path: Path) -> Callable[[str], str]:
        return lambda name: str(tmp_path / name)
