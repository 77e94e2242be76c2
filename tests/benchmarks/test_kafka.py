"""Where Apache Kafka cannot be had, a sentence says what is missing."""

import shutil
from pathlib import Path

import pytest

from benchmarks import kafka
from benchmarks.harness import Unavailable


def only(*programs: str) -> object:
    return lambda name: f"/usr/bin/{name}" if name in programs else None


def test_without_java_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", only())
    with pytest.raises(Unavailable, match="no java"):
        kafka.jars()


def test_without_mvn_and_jars_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", only("java"))
    monkeypatch.setenv("TIERLOG_KAFKA_CACHE", str(tmp_path))
    with pytest.raises(Unavailable, match="no mvn"):
        kafka.jars()


def test_a_filled_cache_needs_no_mvn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", only("java"))
    monkeypatch.setenv("TIERLOG_KAFKA_CACHE", str(tmp_path))
    folder = tmp_path / f"jars-{kafka.VERSION}"
    folder.mkdir()
    assert kafka.jars() == folder
