"""`infra/minio/lifecycle.py` on a real MinIO: what it sets, what it leaves, what it refuses."""

import subprocess
import sys
from typing import Any

import pytest

from tests.stores.servers import KEY, ROOT, SECRET, Server

pytestmark = pytest.mark.store

SCRIPT = ROOT / "infra" / "minio" / "lifecycle.py"


def lifecycle(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "MINIO_ENDPOINT": server.endpoint,
        "MINIO_ROOT_USER": KEY,
        "MINIO_ROOT_PASSWORD": SECRET,
        "PATH": "/usr/bin:/bin",
    }
    return subprocess.run(
        [sys.executable, SCRIPT, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def bucket(minio_server: Server, request: pytest.FixtureRequest) -> str:
    """Of its own, with versions."""
    name = f"rules-{abs(hash(request.node.name)) % 10**9}"
    client = minio_server.client()
    client.create_bucket(Bucket=name)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


def rules(server: Server, bucket: str) -> dict[str, Any]:
    answer = server.client().get_bucket_lifecycle_configuration(Bucket=bucket)
    return {one["ID"]: one for one in answer["Rules"]}


def test_it_sets_its_rules_and_says_which(minio_server: Server, bucket: str) -> None:
    done = lifecycle(minio_server, bucket, "--prefix", "first", "--noncurrent-days", "7")
    assert done.returncode == 0, done.stderr
    found = rules(minio_server, bucket)
    versions = found["tierlog-noncurrent"]
    assert versions["NoncurrentVersionExpiration"]["NoncurrentDays"] == 7
    assert versions["Filter"]["Prefix"] == "first/"
    assert found["tierlog-marks"]["Expiration"]["ExpiredObjectDeleteMarker"] is True
    assert all("Days" not in one.get("Expiration", {}) for one in found.values())
    assert all(one in done.stdout for one in found)


def test_a_second_time_it_replaces_its_own_rules_and_keeps_the_others(
    minio_server: Server, bucket: str
) -> None:
    other = {
        "ID": "logs",
        "Status": "Enabled",
        "Filter": {"Prefix": "logs/"},
        "Expiration": {"Days": 3},
    }
    minio_server.client().put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [other]}
    )
    lifecycle(minio_server, bucket, "--prefix", "first", "--noncurrent-days", "7")
    done = lifecycle(minio_server, bucket, "--prefix", "first", "--noncurrent-days", "9")
    assert done.returncode == 0, done.stderr
    found = rules(minio_server, bucket)
    assert found["logs"]["Expiration"]["Days"] == 3
    assert found["tierlog-noncurrent"]["NoncurrentVersionExpiration"]["NoncurrentDays"] == 9


@pytest.mark.parametrize("theirs", ["", "fir", "first/c/"])
def test_a_rule_that_deletes_current_objects_of_ours_is_refused(
    minio_server: Server, bucket: str, theirs: str
) -> None:
    bad = {
        "ID": "tidy",
        "Status": "Enabled",
        "Filter": {"Prefix": theirs},
        "Expiration": {"Days": 30},
    }
    minio_server.client().put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": [bad]}
    )
    for words in ([], ["--check"]):
        done = lifecycle(minio_server, bucket, "--prefix", "first", *words)
        assert done.returncode == 1
        assert "rule tidy deletes current objects" in done.stderr
    assert list(rules(minio_server, bucket)) == ["tidy"]


def test_a_bucket_without_rules_passes_the_check_and_stays_without(
    minio_server: Server, bucket: str
) -> None:
    done = lifecycle(minio_server, bucket, "--check")
    assert done.returncode == 0, done.stderr
    with pytest.raises(minio_server.client().exceptions.ClientError):
        rules(minio_server, bucket)


def test_a_bucket_that_is_not_there_is_told(minio_server: Server) -> None:
    done = lifecycle(minio_server, "there-is-no-such-bucket")
    assert done.returncode == 1
    assert "there-is-no-such-bucket" in done.stderr
