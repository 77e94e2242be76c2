"""Where the bucket is found."""

import pytest

from tierlog.objectstore.s3.control import open_control
from tierlog.objectstore.s3.settings import S3Settings


@pytest.mark.parametrize(
    ("bucket", "endpoint", "region", "base"),
    [
        ("logs", "", "eu-west-3", "https://logs.s3.eu-west-3.amazonaws.com"),
        ("my.logs", "", "eu-west-3", "https://s3.eu-west-3.amazonaws.com/my.logs"),
        ("logs", "http://minio:9000", "", "http://minio:9000/logs"),
        ("logs", "http://minio:9000/", "", "http://minio:9000/logs"),
        ("logs", "https://store.example/s3", "", "https://store.example/s3/logs"),
    ],
)
def test_the_bucket_is_part_of_the_host_on_aws_and_of_the_path_elsewhere(
    bucket: str, endpoint: str, region: str, base: str
) -> None:
    settings = S3Settings(endpoint=endpoint, region=region, access_key="k", secret_key="s")
    assert open_control(bucket, settings).base == base


def test_settings_do_not_show_their_keys() -> None:
    settings = S3Settings(access_key="AKIA-visible", secret_key="very-secret")
    assert "visible" not in repr(settings)
    assert "secret" not in repr(settings).replace("secret_key", "")


def test_half_a_pair_of_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="come together"):
        S3Settings(access_key="k")


def test_an_endpoint_is_a_url() -> None:
    with pytest.raises(ValueError, match="not the URL"):
        S3Settings(endpoint="minio:9000")


def test_bytes_add_to_the_time_limit() -> None:
    settings = S3Settings(call_s=10, bytes_per_s_min=1 << 20)
    assert settings.limit_s(0) == 10
    assert settings.limit_s(64 << 20) == 74
