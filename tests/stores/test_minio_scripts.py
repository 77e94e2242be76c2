"""`make minio-up` and `make minio-down`, on a port and in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.servers import ROOT, Server, free_ports, status_of

pytestmark = pytest.mark.store


@pytest.fixture
def environment(minio_server: Server, tmp_path: Path) -> dict[str, str]:
    """Asks for the server of the session only to be skipped where MinIO is missing."""
    (port,) = free_ports(1)
    ours = {"MINIO_PORT": str(port), "MINIO_DATA": str(tmp_path / "minio")}
    return {**os.environ, **ours, "PYTHON": sys.executable}


def run(script: str, environment: dict[str, str]) -> str:
    path = ROOT / "infra" / "minio" / script
    done = subprocess.run(
        [path], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_starts_once_says_how_to_use_it_and_ends(environment: dict[str, str]) -> None:
    endpoint = f"http://127.0.0.1:{environment['MINIO_PORT']}"
    pid_file = Path(environment["MINIO_DATA"]) / "minio.pid"
    try:
        said = run("up.sh", environment)
        assert f"--store s3://tierlog/first --set s3.endpoint={endpoint}" in said
        pid = pid_file.read_text()
        run("up.sh", environment)
        assert pid_file.read_text() == pid
        assert status_of(f"{endpoint}/minio/health/ready") == 200
    finally:
        ended = run("down.sh", environment)
    assert "has ended" in ended
    assert status_of(f"{endpoint}/minio/health/ready") == 0
    assert "not running" in run("down.sh", environment)
