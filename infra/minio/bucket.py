"""Waits for the store and makes the bucket, where it is not there yet.

Nothing more is needed to begin: tierlog aborts uploads that it left behind, and deletes what has
expired itself, in the order that its manifests ask for. A lifecycle rule that deletes objects below
tierlog's prefix loses data; `lifecycle.py` sets those that help, and refuses such a bucket.
"""

import os
import sys
import time
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

READY_S = 30.0
OURS = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


def main() -> int:
    client = boto3.client(
        "s3",
        endpoint_url=os.environ["MINIO_ENDPOINT"],
        aws_access_key_id=os.environ["MINIO_ROOT_USER"],
        aws_secret_access_key=os.environ["MINIO_ROOT_PASSWORD"],
        region_name="us-east-1",
        config=Config(proxies={}, retries={"total_max_attempts": 1}),
    )
    until = time.monotonic() + READY_S
    while problem := trouble(client, os.environ["MINIO_BUCKET"]):
        if time.monotonic() > until:
            print(f"no bucket after {READY_S:.0f} s: {problem}", file=sys.stderr)
            return 1
        time.sleep(0.1)
    return 0


def trouble(client: Any, bucket: str) -> str:
    """What keeps the bucket from being made; empty when it is there."""
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return "" if code in OURS else str(error)
    except BotoCoreError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
