"""boto3, tuned: no retries, no checksums that nobody asked for, no proxies, bounded waits.

Building a client reads some hundred kilobytes of service description and looks for credentials, so
a store does it once.
"""

from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.httpsession import get_cert_path
from botocore.session import Session

from tierlog.objectstore.s3.settings import S3Settings

REGION_DEFAULT = "us-east-1"


class Control(NamedTuple):
    client: Any
    credentials: Any
    region: str
    base: str
    """URL of the bucket."""
    ca_certs: str
    """Path of the certificates that are trusted: AWS_CA_BUNDLE, else those that botocore brings."""


def open_control(bucket: str, settings: S3Settings) -> Control:
    core = Session()
    session = boto3.Session(
        botocore_session=core,
        aws_access_key_id=settings.access_key or None,
        aws_secret_access_key=settings.secret_key or None,
        region_name=settings.region or None,
    )
    region = session.region_name or REGION_DEFAULT
    client = session.client(
        "s3",
        region_name=region,
        endpoint_url=settings.endpoint or None,
        config=_config(settings),
    )
    # AWS's own endpoint of the region, where none is set.
    endpoint = client.meta.endpoint_url.rstrip("/")
    base = _bucket_url(endpoint, bucket, in_path=bool(settings.endpoint))
    ca_certs = core.get_config_variable("ca_bundle") or get_cert_path(True)
    return Control(client, session.get_credentials(), region, base, ca_certs)


def _config(settings: S3Settings) -> Config:
    return Config(
        signature_version="s3v4",
        connect_timeout=settings.connect_s,
        read_timeout=settings.silence_s,
        # Whoever calls decides what may be repeated; a conditional write may not.
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=settings.small_max,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        proxies={},
        s3={
            # Few services but AWS resolve a host name for each bucket.
            "addressing_style": "path" if settings.endpoint else "auto",
            "payload_signing_enabled": False,
        },
    )


def _bucket_url(endpoint: str, bucket: str, *, in_path: bool) -> str:
    """A certificate of AWS covers one label before the service, so a name with dots is a path."""
    if in_path or "." in bucket:
        return f"{endpoint}/{bucket}"
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{bucket}.{host}"
